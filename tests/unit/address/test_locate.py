"""Addresses are located as a person would read them."""

from collections.abc import Callable
from contextlib import suppress
from time import thread_time
from typing import Any

import pytest

from langlauf.domain.errors import PermanentError

Analyse = Callable[..., dict[str, Any]]

LOCATED = [
    ("Bahnhofstrasse 1, 9000 St. Gallen", "Sankt Gallen", "CH", "SG"),
    ("Bahnhofstrasse 1 9000 St. Gallen", "Sankt Gallen", "CH", "SG"),
    ("Bahnhofstrasse 1 St Gallen", "Sankt Gallen", "CH", "SG"),
    ("Sankt Galen", "Sankt Gallen", "CH", "SG"),
    ("Bundesplatz 3, 3005 Bern", "Bern", "CH", "BE"),
    ("Berne", "Bern", "CH", "BE"),
    ("Zürich", "Zürich", "CH", "ZH"),
    ("zürich", "Zürich", "CH", "ZH"),
    ("ZUERICH", "Zürich", "CH", "ZH"),
    ("Zurch", "Zürich", "CH", "ZH"),
    ("Zürich HB", "Zürich", "CH", "ZH"),
    ("Im Winkel 3, 8001 Zürich", "Zürich", "CH", "ZH"),
    ("Londonstrasse 4, 8001 Zürich", "Zürich", "CH", "ZH"),
    ("Oerlikon, Zürich", "Zürich (Kreis 11) / Oerlikon", "CH", "ZH"),
    ("Köniz, Bern", "Köniz", "CH", "BE"),
    ("CH-8400 Winterthur", "Winterthur", "CH", "ZH"),
    ("Winterthru", "Winterthur", "CH", "ZH"),
    ("Kanton Zürich, Winterthur", "Winterthur", "CH", "ZH"),
    ("Genf", "Geneva", "CH", "GE"),
    ("Geneva", "Geneva", "CH", "GE"),
    ("Genève", "Geneva", "CH", "GE"),
    ("Rue du Rhône 10 Genève", "Geneva", "CH", "GE"),
    ("Avenue de la Gare 5, 1003 Lausanne", "Lausanne", "CH", "VD"),
    ("Via Nassa 5, 6900 Lugano, Svizzera", "Lugano", "CH", "TI"),
    ("Hauptstrasse 12, 4051 Basel, CH", "Basel", "CH", "BS"),
    ("Sion", "Sitten", "CH", "VS"),
    ("Bienne", "Biel/Bienne", "CH", "BE"),
    ("9470 Buchs", "Buchs", "CH", "SG"),
    ("5033 Buchs", "Buchs", "CH", "AG"),
    ("Buchs AG", "Buchs", "CH", "AG"),
    ("Buchs (SG)", "Buchs", "CH", "SG"),
    ("FL-9490 Vaduz", "Vaduz", "LI", "11"),
    ("10 Downing Street, London", "London", "GB", "ENG"),
    ("10 Downing Street London", "London", "GB", "ENG"),
    ("221B Baker Street, London NW1 6XE", "London", "GB", "ENG"),
    ("London, Ontario", "London", "CA", "08"),
    ("London, Canada", "London", "CA", "08"),
    ("1600 Pennsylvania Ave NW, Washington, DC", "Washington", "US", "DC"),
    ("1600 Pennsylvania Ave NW, Washington, DC 20500", "Washington", "US", "DC"),
    ("1600 Amphitheatre Parkway, Mountain View, CA 94043", "Mountain View", "US", "CA"),
    ("Springfield, IL", "Springfield", "US", "IL"),
    ("springfield, il", "Springfield", "US", "IL"),
    ("Springfield, IL 62701", "Springfield", "US", "IL"),
    ("St. Louis, MO", "St. Louis", "US", "MO"),
    ("Port St. Lucie", "Port Saint Lucie", "US", "FL"),
    ("Atlanta, Georgia", "Atlanta", "US", "GA"),
    ("Tbilisi, Georgia", "Tbilisi", "GE", "51"),
    ("New York, NY", "New York City", "US", "NY"),
    ("Colorado Sprngs", "Colorado Springs", "US", "CO"),
    ("Fotr Worth", "Fort Worth", "US", "TX"),
    ("Los Angelse", "Los Angeles", "US", "CA"),
    ("Paris, Texas", "Paris", "US", "TX"),
    ("Rue de Rivoli 1, 75001 Paris, France", "Paris", "FR", "11"),
    ("8 rue de Londres, 75009 Paris", "Paris", "FR", "11"),
    ("Paris Street 5, 9000 St. Gallen", "Sankt Gallen", "CH", "SG"),
    ("Paris Street 5, London", "London", "GB", "ENG"),
    ("München", "Munich", "DE", "02"),
    ("Munchen", "Munich", "DE", "02"),
    ("Muenchen", "Munich", "DE", "02"),
    ("Munich", "Munich", "DE", "02"),
    ("D-80331 München", "Munich", "DE", "02"),
    ("Unter den Linden 5 Berlin", "Berlin", "DE", "16"),
    ("Koeln", "Köln", "DE", "07"),
    ("Cologne", "Köln", "DE", "07"),
    ("Frankfurt", "Frankfurt am Main", "DE", "05"),
    ("Halle", "Halle (Saale)", "DE", "14"),
    ("Wien, Österreich", "Vienna", "AT", "09"),
    ("A-1010 Wien", "Vienna", "AT", "09"),
    ("Roma", "Rome", "IT", "07"),
    ("Genova", "Genoa", "IT", "08"),
    ("Den Haag", "The Hague", "NL", "11"),
    ("東京", "Tokyo", "JP", "40"),
    ("東京都千代田区1-1", "Tokyo", "JP", "40"),
    ("Москва", "Moscow", "RU", "48"),
    ("Singapore", "Singapore", "SG", ""),
]


@pytest.mark.parametrize(("query", "name", "country", "region"), LOCATED)
def test_address_is_located(analyse: Analyse, query: str, name: str, country: str, region: str) -> None:
    """The place meant is found, in its country and region."""
    place = analyse(query)["locate"]["place"]
    assert (place["name"], place["country"], place["region"]) == (name, country, region)


NOT_LOCATED = [
    "",
    "   ",
    "!!!",
    "qwxzv 99",
    "8001",
    "asdf",
    "test",
    "hello world",
    "house of cards",
    "Switzerland",
    "St. Moritz",  # smaller than the default table lists
    "Paris Street 5",
    "Bahnhofstrasse 1",
    "Lorem ipsum dolor sit amet",
    "\x00",
    "\ud800",
]


@pytest.mark.parametrize("query", NOT_LOCATED)
def test_text_without_a_place_is_refused(analyse: Analyse, query: str) -> None:
    """A text without a place the table knows is a permanent error that names the next step."""
    with pytest.raises(PermanentError) as caught:
        analyse(query)
    assert caught.value.code == "address_intel"
    assert caught.value.hint == "check_input_and_retry"
    assert "such as" in caught.value.message or "Add the name" in caught.value.message
    assert "LANGLAUF" not in caught.value.message
    assert "`" not in caught.value.message


@pytest.mark.parametrize(("query", "name"), [("Bundesplatz 3, 3005 Bren", "Bern"), ("Bahnhof 1, 6300 Zgu", "Zug")])
def test_a_typing_error_beside_a_postcode_gets_a_suggestion(analyse: Analyse, query: str, name: str) -> None:
    """A name too short to be guessed at by itself is compared with the places of the postcode."""
    with pytest.raises(PermanentError) as caught:
        analyse(query)
    assert caught.value.message.endswith(f"Did you mean {name}?")


def test_exact_match_is_more_confident_than_a_misspelt_one(analyse: Analyse) -> None:
    """Confidence falls with the typing errors."""
    exact, misspelt = (analyse(query)["locate"]["match"] for query in ("Winterthur", "Winterthru"))
    assert exact["kind"] == "name"
    assert misspelt["kind"] == "typo_1"
    assert misspelt["confidence"] < exact["confidence"] <= 1


def test_points_add_up_to_the_score(analyse: Analyse) -> None:
    """Every point of a score is named."""
    match = analyse("Rue de Rivoli 1, 75001 Paris, France")["locate"]["match"]
    assert sum(match["points"].values()) == pytest.approx(match["score"], abs=0.06)


def test_alternatives_name_the_other_readings(analyse: Analyse) -> None:
    """A name that many places have lists the next best of them, best first."""
    located = analyse("Springfield")["locate"]
    scores = [other["score"] for other in located["alternatives"]]
    assert len(scores) == 5
    assert scores == sorted(scores, reverse=True)
    assert located["places_of_this_name"] > 10
    assert located["match"]["margin"] == pytest.approx(located["match"]["score"] - scores[0], abs=0.11)


def test_quarters_are_no_rivals_of_their_city(analyse: Analyse) -> None:
    """The quarters of Zürich do not make Zürich ambiguous."""
    located = analyse("Zürich")["locate"]
    assert located["alternatives"] == []
    assert located["places_of_this_name"] == 1


def test_quarter_names_its_city(analyse: Analyse) -> None:
    """A place that is probably a part of a larger one says of which."""
    assert analyse("Oerlikon, Zürich")["locate"]["place"]["part_of"]["name"] == "Zürich"


@pytest.mark.parametrize(
    "query", ["San Fransicso de los Angelees", "abcdefgh ijklmnop " * 27, "x" * 500, "a b c " * 80]
)
def test_search_is_bounded(analyse: Analyse, query: str) -> None:
    """Even a text made to be slow costs little more than an ordinary slip of the pen, counted in this thread's time."""
    assert _cost(analyse, query) < 20 * _cost(analyse, "San Fransicso")


def _cost(analyse: Analyse, query: str) -> float:
    costs = []
    for _ in range(3):
        begun = thread_time()
        with suppress(PermanentError):
            analyse(query)
        costs.append(thread_time() - begun)
    return min(costs)
