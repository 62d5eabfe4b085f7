"""What people read of the analysis `ontology` beside its own texts: facts, and all of it in German."""

from typing import Final

from langlauf.bundled.dependency import MISSING_PACKAGE, MISSING_PACKAGE_GERMAN
from langlauf.domain.result import Fact

FACTS: Final = (
    Fact(key="ontology", label="Ontology"),
    Fact(key="terms", label="Terms"),
    Fact(key="first_run", label="First version"),
    Fact(key="changes", label="Changes"),
    Fact(key="added", label="Added"),
    Fact(key="removed", label="Removed"),
    Fact(key="renamed", label="Renamed"),
    Fact(key="moved", label="Moved"),
    Fact(key="merged", label="Merged"),
    Fact(key="obsoleted", label="Obsoleted"),
    Fact(key="findings", label="Findings in its structure"),
)
ENGLISH: Final = {"Text": "Ontology (OBO)", "Ontology": "Name of the ontology", "Previous": "Version to compare with"}
GERMAN: Final = {
    "Compare two versions of an ontology": "Zwei Versionen einer Ontologie vergleichen",
    "Compare a version of an ontology with the one before it: terms added, removed, renamed, obsoleted, moved, "
    "merged.": (
        "Vergleicht eine Version einer Ontologie mit der vorherigen: Begriffe, die neu, entfernt, umbenannt, veraltet, "
        "verschoben oder zusammengeführt sind."
    ),
    "The version before is `previous`, else the one of the org's last completed job for the same ontology. Reading, "
    "every namespace and the structure are checkpoints, so a restarted job goes on at the next namespace, and each "
    "ends in a partial result. A text that is no OBO fails with the code `bad_ontology`, and names the line.": (
        "Verglichen wird mit `previous`, sonst mit dem letzten abgeschlossenen Job der Organisation für dieselbe "
        "Ontologie. Nach jedem Namensraum gibt es einen Zwischenstand; ein unterbrochener Job macht beim nächsten "
        "weiter. Ein Text, der kein OBO ist, schlägt mit dem Code `bad_ontology` fehl und nennt die Zeile."
    ),
    "Text": "Ontologie (OBO)",
    "The ontology as an OBO document (format 1.2 or 1.4), at most 200 000 terms.": (
        "Die Ontologie als OBO-Dokument (Format 1.2 oder 1.4), höchstens 200 000 Begriffe."
    ),
    "Ontology": "Ontologie",
    "What the ontology is called, so that the next version finds this one. Without it, what the document's header says "
    "after `ontology:`.": (
        "Wie die Ontologie heisst, damit die nächste Version diese findet. Ohne Angabe, was im Kopf des Dokuments nach "
        "`ontology:` steht."
    ),
    "Previous": "Frühere Version",
    "The version to compare with, as an OBO document. Without it, the version of the last completed job of the same "
    "ontology.": (
        "Die Version, mit der verglichen wird, als OBO-Dokument. Ohne Angabe die des letzten abgeschlossenen Jobs "
        "derselben Ontologie."
    ),
    # facts
    "Terms": "Begriffe",
    "First version": "Erste Version",
    "Changes": "Änderungen",
    "Added": "Neu",
    "Removed": "Entfernt",
    "Renamed": "Umbenannt",
    "Moved": "Verschoben",
    "Merged": "Zusammengeführt",
    "Obsoleted": "Veraltet",
    "Revived": "Wieder gültig",
    "Namespace changed": "Namensraum geändert",
    "Definition changed": "Definition geändert",
    "Synonyms changed": "Synonyme geändert",
    "Definition or synonyms": "Definition oder Synonyme",
    "Other": "Andere",
    "Findings in its structure": "Befunde in der Struktur",
    # steps
    "Reading the document": "Dokument wird gelesen",
    "Reading the previous version": "Frühere Version wird gelesen",
    "Namespace {}": "Namensraum {}",
    "Namespace {} compared": "Namensraum {} verglichen",
    # errors
    MISSING_PACKAGE: MISSING_PACKAGE_GERMAN,
    "`{}` holds no [Term].": "`{}` enthält kein [Term].",
    "`{}` has {} terms; at most {} are compared.": "`{}` hat {} Begriffe; höchstens {} werden verglichen.",
    'Line {} of `{}` is no OBO: "" ({}).': "Zeile {} von `{}` ist kein OBO ({}).",
    'Line {} of `{}` is no OBO: "{}" ({}).': "Zeile {} von `{}` ist kein OBO: «{}» ({}).",
    # views
    "Summary": "Zusammenfassung",
    "**{}**, version {}: {} terms.": "**{}**, Version {}: {} Begriffe.",
    "**{}**: {} terms.": "**{}**: {} Begriffe.",
    "Compared with version {}, which had {} terms:": "Verglichen mit Version {}, die {} Begriffe hatte:",
    "Compared with the version before, which had {} terms:": (
        "Verglichen mit der vorherigen Version, die {} Begriffe hatte:"
    ),
    "No change.": "Keine Änderung.",
    "Findings:": "Befunde:",
    "No findings in its structure.": "Keine Befunde in der Struktur.",
    "There is no earlier version to compare with: this is the first one.": (
        "Es gibt keine frühere Version zum Vergleichen: Das ist die erste."
    ),
    "The last job for this ontology kept its terms in a form that cannot be read any more.": (
        "Der letzte Job für diese Ontologie hat seine Begriffe in einer Form gespeichert, die nicht mehr lesbar ist."
    ),
    "{} terms were {}; {} of them are listed.": "Begriffe ({1}): {0}; davon aufgeführt: {2}.",
    "added": "neu",
    "removed": "entfernt",
    "merged": "zusammengeführt",
    "obsoleted": "veraltet",
    "revived": "wieder gültig",
    "renamed": "umbenannt",
    "moved": "verschoben",
    "namespace changed": "Namensraum geändert",
    "redefined": "Definition geändert",
    "synonyms changed": "Synonyme geändert",
    "By namespace": "Nach Namensraum",
    "Change": "Änderung",
    "{} changes in {} namespaces.": "{} Änderungen in {} Namensräumen.",
    "{} terms in {} namespaces.": "{} Begriffe in {} Namensräumen.",
    "Circles of parents": "Kreise von Oberbegriffen",
    "Parents that are not in the document": "Oberbegriffe, die im Dokument fehlen",
    "Parents that are obsolete": "Veraltete Oberbegriffe",
    "Replacements that are not in the document": "Nachfolger, die im Dokument fehlen",
    "Alternative ids that are terms themselves": "Alternative IDs, die selbst Begriffe sind",
    "Ids with more than one frame": "IDs mit mehr als einem Eintrag",
    "Terms without a name": "Begriffe ohne Namen",
    "{}: {}": "{}: {}",
    "{} ({})": "{} ({})",
    "{} ({} of {})": "{} ({} von {})",
    "Namespace": "Namensraum",
    "Term": "Begriff",
    "Name": "Name",
    "Before": "Vorher",
    "Into": "In",
    "Replaced by": "Ersetzt durch",
    "New parents": "Neue Oberbegriffe",
    "Former parents": "Frühere Oberbegriffe",
    "Findings": "Befunde",
    "Finding": "Befund",
    "Refers to": "Bezieht sich auf",
    "Kind": "Art",
    "Count": "Anzahl",
}
