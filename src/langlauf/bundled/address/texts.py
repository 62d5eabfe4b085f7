"""What people read of the analysis `address` beside its own texts: facts, and all of it in German."""

from typing import Final

from langlauf.domain.result import Fact

FACTS: Final = (
    Fact(key="place", label="Place"),
    Fact(key="country", label="Country"),
    Fact(key="population", label="People"),
    Fact(key="people_within_25_km", label="People within 25 km"),
    Fact(key="risk_score", label="Score (0 to 100)"),
    Fact(key="risk_level", label="Level"),
    Fact(key="confidence", label="Certainty of the match (0 to 1)"),
    Fact(key="stages", label="Stages done"),
)
_NOT_RECOGNISED: Final = (
    "In der Eingabe wurde kein Ort erkannt. Die Schreibweise prüfen und Ort und Land ergänzen, zum Beispiel "
    "«Bundesplatz 3, 3005 Bern, Schweiz»."
)
ENGLISH: Final = {
    "Query": "Address or place",
    "basic": "basic: place and rank",
    "extended": "extended: also surroundings and names",
    "risk": "risk: also a score",
    # keys of the result
    "parse": "take the address apart",
    "locate": "find the place",
    "profile": "people by distance",
    "comparable": "comparable places",
    "sun_and_time": "sun and time",
    "border": "nearness of borders",
    # parts of the address
    "after_postcode": "after the postcode",
    "before_postcode": "before the postcode",
}
GERMAN: Final = {
    "Locate an address": "Eine Adresse finden",
    "Locate an address in the GeoNames gazetteer and describe the place, its region, surroundings and rank.": (
        "Sucht eine Adresse im Ortsverzeichnis GeoNames und beschreibt den Ort, seine Region, Umgebung und seinen Rang."
    ),
    "Every stage is a checkpoint, so a restarted job goes on where it was, and ends in a partial result that holds all "
    "stages so far. Without a recognisable place it fails with the code `address_intel`.": (
        "Nach jeder Stufe gibt es einen Zwischenstand mit allem, was bis dahin bekannt ist; ein unterbrochener Job "
        "macht dort weiter. Ohne erkennbaren Ort schlägt er mit dem Code `address_intel` fehl."
    ),
    "Query": "Adresse oder Ort",
    "An address or the name of a place, in any language and in the order people write it. The town is located; street "
    "and house number are read, but not looked up.": (
        "Eine Adresse oder ein Ortsname, in beliebiger Sprache und Reihenfolge. "
        "Gesucht wird der Ort; Strasse und Hausnummer werden gelesen, aber nicht nachgeschlagen."
    ),
    "Level of detail": "Ausführlichkeit",
    "How much to say: `basic` locates and ranks the place, `extended` adds its people, peers, accessibility, daylight "
    "and names, `risk` adds scored components with their reasons.": (
        "Wie viel gesagt wird: `basic` findet den Ort und seinen Rang, `extended` ergänzt Einwohner, ähnliche Orte, "
        "Erreichbarkeit, Tageslicht und Namen, `risk` dazu bewertete Anteile mit Begründung."
    ),
    "basic": "basic: Ort und Rang",
    "extended": "extended: dazu Umfeld und Namen",
    "risk": "risk: dazu Bewertung",
    # facts
    "Place": "Ort",
    "Country": "Land",
    "People": "Einwohner",
    "People within 25 km": "Einwohner im Umkreis von 25 km",
    "Score (0 to 100)": "Punktzahl (0 bis 100)",
    "Level": "Stufe",
    "Certainty of the match (0 to 1)": "Sicherheit des Treffers (0 bis 1)",
    "Stages done": "Erledigte Stufen",
    "low": "tief",
    "moderate": "mässig",
    "elevated": "erhöht",
    "high": "hoch",
    # steps
    "Taking the address apart": "Adresse wird zerlegt",
    "Finding the place": "Ort wird gesucht",
    "Describing the region and the country": "Region und Land werden beschrieben",
    "Measuring the surroundings": "Umgebung wird vermessen",
    "Ranking size and centrality": "Grösse und Zentralität werden eingeordnet",
    "Counting people by distance and direction": "Einwohner werden nach Entfernung und Richtung gezählt",
    "Finding comparable places": "Ähnliche Orte werden gesucht",
    "Computing the accessibility": "Erreichbarkeit wird berechnet",
    "Computing sun and time": "Sonne und Zeit werden berechnet",
    "Sorting the names by script": "Namen werden nach Schrift geordnet",
    "Weighing the ambiguity of the match": "Eindeutigkeit des Treffers wird bewertet",
    "Weighing the remoteness": "Abgelegenheit wird bewertet",
    "Weighing the concentration of people": "Konzentration der Einwohner wird bewertet",
    "Weighing the nearness of borders": "Grenznähe wird bewertet",
    "Weighing the seasons of daylight": "Jahreszeiten des Tageslichts werden bewertet",
    "Combining the components": "Anteile werden zusammengefasst",
    # keys of the result
    "parse": "Adresse zerlegen",
    "locate": "Ort suchen",
    "region": "Region",
    "surroundings": "Umgebung",
    "rank": "Rang",
    "profile": "Einwohner nach Entfernung",
    "comparable": "ähnliche Orte",
    "accessibility": "Erreichbarkeit",
    "sun_and_time": "Sonne und Zeit",
    "names": "Namen",
    "ambiguity": "Eindeutigkeit",
    "remoteness": "Abgelegenheit",
    "concentration": "Konzentration",
    "border": "Grenznähe",
    "seasonality": "Jahreszeiten",
    "assessment": "Bewertung",
    "Loading the table of places (only the first job waits for it)": (
        "Ortsverzeichnis wird geladen (nur der erste Job wartet darauf)"
    ),
    "Address taken apart": "Adresse zerlegt",
    "Place located": "Ort gefunden",
    "Region and country described": "Region und Land beschrieben",
    "Surroundings measured": "Umgebung vermessen",
    "Size and centrality ranked": "Grösse und Zentralität eingeordnet",
    "People by distance and direction counted": "Einwohner nach Entfernung und Richtung gezählt",
    "Comparable places found": "Ähnliche Orte gefunden",
    "Accessibility computed": "Erreichbarkeit berechnet",
    "Sun and time computed": "Sonne und Zeit berechnet",
    "Names sorted by script": "Namen nach Schrift geordnet",
    "Ambiguity of the match weighed": "Eindeutigkeit des Treffers bewertet",
    "Remoteness weighed": "Abgelegenheit bewertet",
    "Concentration of people weighed": "Konzentration der Einwohner bewertet",
    "Nearness of borders weighed": "Grenznähe bewertet",
    "Seasons of daylight weighed": "Jahreszeiten des Tageslichts bewertet",
    "Components combined": "Anteile zusammengefasst",
    # errors
    "The query holds no words. Send an address with the name of its town, such as “Bundesplatz 3, Bern”.": (
        "Die Eingabe enthält keine Wörter. Eine Adresse mit dem Namen des Orts angeben, zum Beispiel "
        "«Bundesplatz 3, Bern»."
    ),
    "No place called {} was found. Did you mean {}?": "Ein Ort namens {} wurde nicht gefunden. Ist {} gemeint?",
    "The query names a country or a region but no place the gazetteer knows. Add the name of the town, then send it "
    "again.": (
        "Die Eingabe nennt ein Land oder eine Region, aber keinen Ort aus dem Ortsverzeichnis. Den Namen des Orts "
        "ergänzen und noch einmal starten."
    ),
    "No place was recognised in the query. Check the spelling and add the town and the country, such as “Bundesplatz "
    "3, 3005 Bern, Switzerland”.": _NOT_RECOGNISED,
    "No place was recognised in the query. Check the spelling and add the town and the country, such as “Bundesplatz "
    "3, 3005 Bern, Switzerland”. Places with fewer than {} people are not listed.": (
        _NOT_RECOGNISED + " Orte mit weniger als {} Einwohnern sind nicht im Verzeichnis."
    ),
    # views
    "Around {}": "Rund um {}",
    "Centre of population of {}": "Bevölkerungsmittelpunkt von {}",
    "Rank by size": "Rang nach Grösse",
    "Places of the same size": "Gleich grosse Orte",
    "Nearest places": "Nächste Orte",
    "Parts of the score": "Anteile der Punktzahl",
    "Distance": "Entfernung",
    "Size ratio": "Grössenverhältnis",
    "Where": "Wo",
    "Direction": "Richtung",
    "same country": "im selben Land",
    "abroad": "im Ausland",
    "NE": "NO",
    "E": "O",
    "SE": "SO",
    "Places that are smaller (%)": "Kleinere Orte (%)",
    "Points": "Punkte",
    "World": "Welt",
    "Region {}": "Region {}",
    "{}: {} of {}": "{}: {} von {}",
    "By people {} is number {} of {} in {}.": "Nach Einwohnern ist {} Nummer {} von {} in {}.",
    "The components add up to a score of {} of 100, which is {}.": "Die Anteile ergeben {} von 100 Punkten: {}.",
    "Main place": "Hauptort",
    "Other places, by people": "Andere Orte, nach Einwohnern",
    "Role": "Rolle",
    "Words": "Wörter",
    "street": "Strasse",
    "after_postcode": "nach der Postleitzahl",
    "before_postcode": "vor der Postleitzahl",
    "Name": "Name",
    "Population": "Einwohner",
    "Distance km": "Entfernung km",
    "radius": "Umkreis",
    "place": "Ort",
    "nearby": "in der Nähe",
    "Scope": "Gebiet",
    "Smaller": "Kleiner (%)",
    "Rank": "Rang",
    "Of": "Von",
    "Component": "Anteil",
}
