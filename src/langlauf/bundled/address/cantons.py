"""The 26 cantons of Switzerland by the code GeoNames and the postal service use."""

from typing import Final, NamedTuple


class Canton(NamedTuple):
    """The names of one canton in four languages."""

    german: str
    french: str
    italian: str
    english: str


CANTONS: Final[dict[str, Canton]] = {
    "AG": Canton("Aargau", "Argovie", "Argovia", "Aargau"),
    "AI": Canton(
        "Appenzell Innerrhoden",
        "Appenzell Rhodes-Intérieures",
        "Appenzello Interno",
        "Appenzell Inner Rhodes",
    ),
    "AR": Canton(
        "Appenzell Ausserrhoden",
        "Appenzell Rhodes-Extérieures",
        "Appenzello Esterno",
        "Appenzell Outer Rhodes",
    ),
    "BE": Canton("Bern", "Berne", "Berna", "Bern"),
    "BL": Canton("Basel-Landschaft", "Bâle-Campagne", "Basilea Campagna", "Basel-Country"),
    "BS": Canton("Basel-Stadt", "Bâle-Ville", "Basilea Città", "Basel-City"),
    "FR": Canton("Freiburg", "Fribourg", "Friburgo", "Fribourg"),
    "GE": Canton("Genf", "Genève", "Ginevra", "Geneva"),
    "GL": Canton("Glarus", "Glaris", "Glarona", "Glarus"),
    "GR": Canton("Graubünden", "Grisons", "Grigioni", "Grisons"),
    "JU": Canton("Jura", "Jura", "Giura", "Jura"),
    "LU": Canton("Luzern", "Lucerne", "Lucerna", "Lucerne"),
    "NE": Canton("Neuenburg", "Neuchâtel", "Neuchâtel", "Neuchâtel"),
    "NW": Canton("Nidwalden", "Nidwald", "Nidvaldo", "Nidwalden"),
    "OW": Canton("Obwalden", "Obwald", "Obvaldo", "Obwalden"),
    "SG": Canton("St. Gallen", "Saint-Gall", "San Gallo", "St. Gallen"),
    "SH": Canton("Schaffhausen", "Schaffhouse", "Sciaffusa", "Schaffhausen"),
    "SO": Canton("Solothurn", "Soleure", "Soletta", "Solothurn"),
    "SZ": Canton("Schwyz", "Schwytz", "Svitto", "Schwyz"),
    "TG": Canton("Thurgau", "Thurgovie", "Turgovia", "Thurgau"),
    "TI": Canton("Tessin", "Tessin", "Ticino", "Ticino"),
    "UR": Canton("Uri", "Uri", "Uri", "Uri"),
    "VD": Canton("Waadt", "Vaud", "Vaud", "Vaud"),
    "VS": Canton("Wallis", "Valais", "Vallese", "Valais"),
    "ZG": Canton("Zug", "Zoug", "Zugo", "Zug"),
    "ZH": Canton("Zürich", "Zurich", "Zurigo", "Zurich"),
}

# The first figure of a Swiss postcode is a delivery area; these are the cantons with places in it.
POSTCODE_AREAS: Final[dict[str, frozenset[str]]] = {
    "1": frozenset({"VD", "GE", "FR", "VS"}),
    "2": frozenset({"NE", "JU", "BE", "SO"}),
    "3": frozenset({"BE", "VS", "FR"}),
    "4": frozenset({"BS", "BL", "SO", "AG", "BE", "LU"}),
    "5": frozenset({"AG", "SO"}),
    "6": frozenset({"LU", "ZG", "TI", "UR", "OW", "NW", "SZ", "GR", "AG"}),
    "7": frozenset({"GR", "SG"}),
    "8": frozenset({"ZH", "SH", "TG", "SZ", "GL", "SG", "AG"}),
    "9": frozenset({"SG", "TG", "AR", "AI"}),
}
