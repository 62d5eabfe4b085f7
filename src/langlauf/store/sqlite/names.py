"""The small numbers that stand for orgs and analyses inside the file."""

from collections.abc import Mapping

import apsw


class Names:
    """Which number stands for which name. A number never stands for another name, and an org may be gone.

    What was looked up is remembered until somebody else has written to the file, or a transaction came to nothing.
    """

    def __init__(self) -> None:
        self._orgs: dict[str, int] = {}
        self._org_ids: dict[int, str] = {}
        self._analyses: dict[str, int] = {}
        self._analysis_names: dict[int, str] = {}
        self._version: object = None

    def forget(self) -> None:
        """Everything is looked up again."""
        for known in (self._orgs, self._org_ids, self._analyses, self._analysis_names):
            known.clear()

    def follow(self, connection: apsw.Connection) -> None:
        """Forgets what another connection may have changed; asked inside of a transaction."""
        version = connection.pragma("data_version")
        if version != self._version:
            self._version = version
            self.forget()

    def org(self, connection: apsw.Connection, queries: Mapping[str, str], org_id: str, *, make: bool = False) -> int:
        """The number of an org; 0 where it has none and none is made."""
        if found := self._orgs.get(org_id):
            return found
        number = _looked_up(connection, queries["find_org"], queries["make_org"] if make else None, org_id)
        if number:
            self._orgs[org_id] = number
            self._org_ids[number] = org_id
        return number

    def org_id(self, connection: apsw.Connection, queries: Mapping[str, str], org: int) -> str:
        """The name of an org."""
        if org not in self._org_ids:
            [[org_id]] = connection.execute(queries["name_of_org"], (org,)).fetchall()
            self._org_ids[org] = str(org_id)
        return self._org_ids[org]

    def analysis(
        self, connection: apsw.Connection, queries: Mapping[str, str], name: str, *, make: bool = False
    ) -> int:
        """The number of an analysis; -1 where it has none and none is made."""
        if name in self._analyses:
            return self._analyses[name]
        number = _looked_up(connection, queries["find_analysis"], queries["make_analysis"] if make else None, name, -1)
        if number >= 0:
            self._analyses[name] = number
            self._analysis_names[number] = name
        return number

    def analysis_name(self, connection: apsw.Connection, queries: Mapping[str, str], analysis: int) -> str:
        """The name of an analysis."""
        if analysis not in self._analysis_names:
            [[name]] = connection.execute(queries["name_of_analysis"], (analysis,)).fetchall()
            self._analysis_names[analysis] = str(name)
        return self._analysis_names[analysis]


def _looked_up(connection: apsw.Connection, find: str, make: str | None, name: str, missing: int = 0) -> int:
    found = connection.execute(find, (name,)).fetchall()
    if not found and make is not None:
        found = connection.execute(make, (name,)).fetchall()
    return int(str(found[0][0])) if found else missing
