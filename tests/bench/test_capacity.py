"""The model of capacity: arithmetic that can be done by hand."""

import pytest
from msgspec.structs import replace

from bench.store.capacity import (
    LIFE,
    Costs,
    Disk,
    Line,
    Need,
    StageCost,
    batch_at,
    capacity,
    claim_us_per_job,
    cost_per_job,
    fitted,
    most_jobs_per_second,
)

STAGE = StageCost(database=Line(1_000, 50), client=Line(500, 25))
COSTS = Costs(
    stages=dict.fromkeys((*LIFE, "renew"), STAGE),
    commit_us=1_000,
    disk=Disk(per_job=1_000, per_event=400, per_result=500, log_per_job=8_000),
    connections_per_host=8,
)


def test_a_line_is_found_again() -> None:
    line = Line(1_200, 40)
    assert fitted([(size, line.of_batch(size)) for size in (1, 10, 100, 500)]) == line


def test_costs_of_one_size_have_no_part_that_is_paid_once() -> None:
    assert fitted([(10, 500)]) == Line(0, 50)


def test_small_batches_weigh_as_much_as_large_ones() -> None:
    found = fitted([(1, 1_040), (500, 21_000 * 1.1)])
    assert found.of_batch(1) == pytest.approx(1_040, rel=0.01)


def test_a_job_costs_four_writes() -> None:
    assert cost_per_job(COSTS, 1) == (4 * 1_050, 4 * 525)
    assert cost_per_job(COSTS, 100) == (4 * 60, 4 * 30)
    assert cost_per_job(COSTS, 100, Need(partials_per_job=0)) == (3 * 60, 3 * 30)
    assert cost_per_job(COSTS, 100, Need(speed=2)) == (2 * 60, 2 * 30)


def test_heartbeats_cost_while_a_job_runs() -> None:
    still = cost_per_job(COSTS, 100)[0]
    assert cost_per_job(COSTS, 100, Need(run_seconds=50, heartbeat_seconds=5))[0] == still + 10 * 60


def test_the_narrowest_place_decides() -> None:
    two_shared = Need(database_cores=2, hosts=4)
    assert most_jobs_per_second(COSTS, 100, two_shared) == pytest.approx(2e6 / 360)
    # The jobs of one process travel together: more processors do not help it, and it waits for four commits.
    alone = Need(database_cores=64)
    assert most_jobs_per_second(COSTS, 100, alone) == pytest.approx(1e6 / (360 + 4 * 10))
    # With more of them, claims take turns.
    many = Need(database_cores=64, client_cores=64, hosts=64)
    assert most_jobs_per_second(COSTS, 100, many) == pytest.approx(1e6 / claim_us_per_job(COSTS, 100))
    assert claim_us_per_job(COSTS, 100) == 70


def test_batches_grow_with_the_rate_and_shrink_with_hosts() -> None:
    slow, fast = Need(jobs_per_second=1), Need(jobs_per_second=5_000)
    assert batch_at(COSTS, slow) == 1
    assert batch_at(COSTS, fast) == pytest.approx(5_000 * 0.002 / (1 - 5_000 * 0.000_05))
    # Claims of all hosts take turns, so theirs do not shrink.
    quick = StageCost(database=Line(1, 1), client=Line(1, 1))
    without = replace(COSTS, stages=COSTS.stages | {"claim": quick})
    assert batch_at(without, replace(fast, hosts=5)) < batch_at(without, fast)
    assert batch_at(COSTS, replace(fast, hosts=5)) == batch_at(COSTS, fast)
    assert batch_at(COSTS, Need(jobs_per_second=1e9)) == 1_000


def test_a_deployment() -> None:
    need = Need(jobs_per_second=10, days_kept=1, payload_bytes=1_000, hosts=2, database_cores=4, client_cores=2)
    found = capacity(COSTS, need)
    assert found.batch == 1
    assert found.database_load == pytest.approx(10 * 4_200e-6 / 4, abs=0.001)
    assert found.client_load == pytest.approx(10 * 2_100e-6 / 2, abs=0.001)
    assert found.connections == 16
    assert found.log_bytes_per_second == 10 * (8_000 + 2_000)
    assert found.disk_bytes == 10 * 86_400 * (1_000 + 4 * 400 + 2 * 500 + 3 * 1_000)
