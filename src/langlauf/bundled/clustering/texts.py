"""What people read of the analysis `clustering` beside its own texts: facts, and all of it in German."""

from typing import Final

from langlauf.domain.view import Fact

FACTS: Final = (
    Fact(key="best_k", label="Best number of clusters"),
    Fact(key="silhouette", label="Silhouette (−1 to 1)"),  # noqa: RUF001 - a minus sign
    Fact(key="tried", label="Tried"),
    Fact(key="rows", label="Rows"),
    Fact(key="columns", label="Columns compared"),
)
ENGLISH: Final = {"K min": "Fewest clusters", "K max": "Most clusters", "Scale": "Weigh all columns the same"}
GERMAN: Final = {
    "Group the rows of a table": "Zeilen einer Tabelle gruppieren",
    "Group the rows of a table with scikit-learn for every k from `k_min` to `k_max`, and say which k fits best.": (
        "Gruppiert die Zeilen einer Tabelle mit scikit-learn für jedes k von `k_min` bis `k_max` und sagt, welches am "
        "besten passt."
    ),
    "Every k is a checkpoint, so a restarted job goes on at the next one, and ends in a partial result with the curve "
    "so far. A table that cannot be used fails with the code `bad_table`, and names row and column.": (
        "Nach jedem k gibt es einen Zwischenstand; ein unterbrochener Job macht beim nächsten k weiter. Eine "
        "unbrauchbare Tabelle schlägt mit dem Code `bad_table` fehl und nennt Zeile und Spalte."
    ),
    "Table": "Tabelle",
    "The table, as CSV or as JSON (a list of objects or a list of lists). Delimiter, header and decimal comma are "
    "found out. At most 100 000 rows and 200 columns.": (
        "Die Tabelle als CSV oder JSON (eine Liste von Objekten oder von Listen). Trennzeichen, Kopfzeile und "
        "Dezimalkomma werden erkannt. Höchstens 100 000 Zeilen und 200 Spalten."
    ),
    "Columns": "Spalten",
    "The columns to compare. Without them, every column of numbers and every text column with at most 12 different "
    "values.": (
        "Die Spalten, die verglichen werden. Ohne Angabe alle Spalten mit Zahlen und alle Textspalten mit höchstens 12 "
        "verschiedenen Werten."
    ),
    "K min": "Kleinste Anzahl Gruppen",
    "The smallest number of clusters to try.": "Die kleinste Anzahl Gruppen, die probiert wird.",
    "K max": "Grösste Anzahl Gruppen",
    "The largest number of clusters to try; at least `k_min`.": (
        "Die grösste Anzahl Gruppen, die probiert wird; mindestens `k_min`."
    ),
    "Method": "Methode",
    "`kmeans` for round groups, `gaussian` for long ones (chosen by BIC), `agglomerative` for a tree of groups (at "
    "most 5 000 rows).": (
        "`kmeans` für runde Gruppen, `gaussian` für längliche (gewählt nach BIC), `agglomerative` für einen Baum von "
        "Gruppen (höchstens 5 000 Zeilen)."
    ),
    "kmeans": "kmeans: runde Gruppen",
    "gaussian": "gaussian: längliche Gruppen",
    "agglomerative": "agglomerative: Baum von Gruppen",
    "Scale": "Alle Spalten gleich gewichten",
    "Whether every column of numbers counts the same, whatever its unit.": (
        "Ob jede Spalte mit Zahlen gleich viel zählt, unabhängig von ihrer Einheit."
    ),
    "Seed": "Startwert",
    "The same seed gives the same result.": "Gleicher Startwert, gleiches Resultat.",
    # facts
    "Best number of clusters": "Beste Anzahl Gruppen",
    "Silhouette (−1 to 1)": "Silhouette (−1 bis 1)",  # noqa: RUF001 - a minus sign
    "Tried": "Probiert",
    "Rows": "Zeilen",
    "Columns compared": "Verglichene Spalten",
    "k = {} to {}": "k = {} bis {}",
    # steps
    "Reading the table": "Tabelle wird gelesen",
    "k = {}": "k = {}",
    "k = {} measured": "k = {} gemessen",
    # views
    "Why this k": "Warum dieses k",
    "**{} clusters** fit these rows best.": "**{} Gruppen** passen am besten zu diesen Zeilen.",
    "Worth knowing:": "Gut zu wissen:",
    "k = {} has the highest silhouette, {}; the next best is k = {} with {}.": (
        "k = {} hat die höchste Silhouette, {}; am nächsten kommt k = {} mit {}."
    ),
    "k = {} has the lowest BIC, {}; the next best is k = {} with {}.": (
        "k = {} hat den tiefsten BIC, {}; am nächsten kommt k = {} mit {}."
    ),
    "k = {} is the only one that could be measured, with a {} of {}.": ("Nur k = {} liess sich messen; Wert ({}): {}."),
    "A silhouette of {} speaks for groups that are clearly apart.": (
        "Eine Silhouette von {} spricht für klar getrennte Gruppen."
    ),
    "A silhouette of {} speaks for groups that touch each other.": (
        "Eine Silhouette von {} spricht für Gruppen, die sich berühren."
    ),
    "A silhouette of {} is low: the rows may not fall into groups at all.": (
        "Eine Silhouette von {} ist tief: Vielleicht bilden die Zeilen gar keine Gruppen."
    ),
    "The curve of the inertia bends most at k = {}, which agrees.": (
        "Die Kurve der Trägheit knickt bei k = {} am stärksten, was dazu passt."
    ),
    "The curve of the inertia bends most at k = {}, a second opinion.": (
        "Die Kurve der Trägheit knickt dagegen bei k = {} am stärksten."
    ),
    "Read with a decimal comma: {}.": "Mit Dezimalkomma gelesen: {}.",
    "{} rows without a value were left out.": "Zeilen ohne Wert, weggelassen: {}.",
    "Only {} rows differ, so k ends at {}.": "Nur {} Zeilen sind verschieden; darum endet k bei {}.",
    "Scatter": "Streudiagramm",
    "Component {} ({} of the variance)": "Komponente {} ({} der Varianz)",
    "Cluster": "Gruppe",
    "{} rows in {} clusters, on two axes that hold {} of their variance.": (
        "{} Zeilen in {} Gruppen, auf zwei Achsen mit {} ihrer Varianz."
    ),
    "A sample of {} of {} rows in {} clusters, on two axes that hold {} of their variance.": (
        "Eine Stichprobe von {} der {} Zeilen in {} Gruppen, auf zwei Achsen mit {} ihrer Varianz."
    ),
    "Silhouette": "Silhouette",
    "Clusters (k)": "Gruppen (k)",
    "Silhouettes of {} values of k: k = {} fits best, with {}.": (
        "Silhouetten von {} Werten für k: k = {} passt am besten, mit {}."
    ),
    "Silhouettes of {} values of k: none could be measured.": (
        "Silhouetten von {} Werten für k: Keine liess sich messen."
    ),
    "Measures": "Masszahlen",
    "Inertia": "Trägheit",
    "BIC": "BIC",
    "k": "k",
    "K": "k",
    "Best": "Beste",
    "X": "x",
    "Y": "y",
    "Row": "Zeile",
    "Clusters": "Gruppen",
    "Share": "Anteil",
    "Name": "Name",
    "Deviations from the typical distance": "Abweichungen vom üblichen Abstand",
    "Outliers": "Ausreisser",
    "Labels": "Zuordnung",
}
