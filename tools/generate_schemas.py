"""Write `crabka/protocol/generated` from the JSON schemas inside Kafka's jars.

kio has the schemas of Kafka's requests and responses; those of the records that Kafka keeps on disk (KIP-631
metadata, coordinator keys and values, the transaction log, remote log metadata, producer snapshots) are only in
the server's jars. This tool turns each version of them into a kio-style dataclass: the newest in a module named as the
message, older ones in a second module that is loaded when one of them is asked for.

    python tools/generate_schemas.py DIRECTORY_WITH_JARS [--output src/crabka/protocol/generated]

UUID fields are never None: `crabka.protocol.entity_codec` reads the zero UUID as itself. A field that a version
lacks is a class constant with Kafka's default, so that readers need not ask for the version.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
# Family (a package of the output) -> jar, without the version.
FAMILIES = {
    "metadata": "kafka-metadata",
    "group": "kafka-group-coordinator",
    "share": "kafka-share-coordinator",
    "transaction": "kafka-transaction-coordinator",
    "storage": "kafka-storage",
    "raft": "kafka-raft",
}
PRIMITIVES = {
    "int8": ("int", "0"),
    "int16": ("int", "0"),
    "int32": ("int", "0"),
    "int64": ("int", "0"),
    "uint16": ("int", "0"),
    "uint32": ("int", "0"),
    "float64": ("float", "0.0"),
    "bool": ("bool", "False"),
    "string": ("str", '""'),
    "bytes": ("bytes", 'b""'),
    "uuid": ("uuid.UUID", "ZERO_UUID"),
}
LINE_LENGTH = 120


@dataclass(frozen=True)
class Versions:
    """A closed range of versions; empty when low > high."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        """Read Kafka's notation: `none`, `3`, `1-4` or `2+`."""
        if text is None or text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), 32767)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))


def load_json(text: str) -> Json:
    """Parse a schema; Kafka allows comment lines in it."""
    schema: Json = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return schema


def snake(name: str) -> str:
    """Return `brokerEpoch`, `EndPoints` or `PID` as snake case."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])|(?<=[A-Z])([A-Z])(?=[a-z])", r"_\1\2", name).lower()


class FieldSpec:
    """One field of a struct, asked for one version."""

    def __init__(self, spec: Json, version: int) -> None:
        self.version = version
        self.name = snake(spec["name"])
        self.present = version in Versions.parse(spec.get("versions", spec.get("taggedVersions", "0+")))
        kind: str = spec["type"]
        self.is_array = kind.startswith("[]")
        self.element = kind.removeprefix("[]")
        self.is_struct = self.element not in PRIMITIVES
        self.nullable = version in Versions.parse(spec.get("nullableVersions"))
        self.tag: int | None = spec["tag"] if version in Versions.parse(spec.get("taggedVersions")) else None
        self.nested: list[Json] | None = spec.get("fields")
        self._default = spec.get("default")

    @property
    def annotation(self) -> str:
        """The Python type."""
        inner = f"{self.element}V{self.version}" if self.is_struct else PRIMITIVES[self.element][0]
        text = f"tuple[{inner}, ...]" if self.is_array else inner
        return f"{text} | None" if self.nullable else text

    @property
    def default(self) -> str | None:
        """The default as source text; None where a value has to be given."""
        if self._default == "null":
            return "None"
        if self._default is not None:
            return self._literal(str(self._default))
        if self.is_array:
            return "()"
        if self.tag is not None:
            return self.implicit_default
        return None

    @property
    def implicit_default(self) -> str:
        """What a version without this field reads as."""
        if self._default is not None:
            return "None" if self._default == "null" else self._literal(str(self._default))
        if self.is_array:
            return "()"
        return "None" if self.is_struct else PRIMITIVES[self.element][1]

    def _literal(self, text: str) -> str:
        kind = PRIMITIVES[self.element][0]
        if kind == "str":
            return json.dumps(text)
        if kind == "bool":
            return text.capitalize()
        if kind == "int":
            return str(int(text, 0))
        raise ValueError(f"default {text!r} of {self.name}")

    def lines(self) -> list[str]:
        """Return the declaration."""
        if not self.present:
            absent = "None" if self.is_struct and not self.is_array else self.implicit_default
            kind = "None" if absent == "None" else self._absent_annotation()
            return [f"    {self.name}: ClassVar[{kind}] = {absent}"]
        metadata = []
        if not self.is_struct:
            metadata.append(f'"kafka_type": "{self.element}"')
        if self.tag is not None:
            metadata.append(f'"tag": {self.tag}')
        arguments = [f"metadata={{{', '.join(metadata)}}}"] if metadata else []
        if self.default is not None:
            arguments.append(f"default={self.default}")
        if not arguments:
            return [f"    {self.name}: {self.annotation}"]
        line = f"    {self.name}: {self.annotation} = field({', '.join(arguments)})"
        if len(line) <= LINE_LENGTH:
            return [line]
        return [f"    {self.name}: {self.annotation} = field(", f"        {', '.join(arguments)}", "    )"]

    def _absent_annotation(self) -> str:
        if self.is_array:
            inner = "object" if self.is_struct else PRIMITIVES[self.element][0]
            return f"tuple[{inner}, ...]"
        return PRIMITIVES[self.element][0]


class MessageWriter:
    """Builds the module of one message with some of its versions."""

    def __init__(self, family: str, schema: Json, origin: str, versions: list[int]) -> None:
        self.family = family
        self.schema = schema
        self.origin = origin
        self.versions = versions
        self.flexible = Versions.parse(schema["flexibleVersions"])
        self.api_key: int | None = schema.get("apiKey")
        self.lines: list[str] = []
        self.names: dict[str, list[int]] = {}

    def newest_source(self, older: MessageWriter | None) -> str:
        """Return the module of the newest version; it finds older ones, if there are any, in their own module."""
        body = self._classes()
        aliases = [f"{name} = {name}V{versions[-1]}" for name, versions in self.names.items()]
        if older is None:
            tail = [*aliases, *self._versions_table(self.versions), ""]
            return "\n".join([self._head(body, "Any, ClassVar, Final"), "", body, *tail])
        older._classes()
        old_names = sorted(f"{name}V{version}" for name, versions in older.names.items() for version in versions)
        module = f"crabka.protocol.generated.{self.family}.{snake(self.schema['name'])}_older"
        imports = ["if TYPE_CHECKING:", f"    from {module} import VERSIONS as VERSIONS"]
        imports += [f"    from {module} import {name} as {name}" for name in old_names]
        # The import system asks modules for `__path__`; that must not load anything.
        finder = [
            "",
            "",
            "def __getattr__(name: str) -> Any:",
            '    if name.startswith("__"):',
            "        raise AttributeError(name)",
        ]
        finder += [f'    return getattr(import_module("{module}"), name)', ""]
        head = self._head(body, "TYPE_CHECKING, Any, ClassVar", importlib=True)
        return "\n".join([head, "", *imports, "", body, *aliases, *finder])

    def older_source(self, newest: int) -> str:
        """Return the module of the versions before the newest, with the table of all."""
        body = self._classes()
        name = self.schema["name"]
        origin = f"crabka.protocol.generated.{self.family}.{snake(name)}"
        head = self._head(body, "Any, ClassVar, Final")
        head += "" if "from crabka.ids" in head else "\n"
        head += f"\nfrom {origin} import {name}V{newest}"
        return "\n".join([head, "", body, *self._versions_table([*self.versions, newest]), ""])

    def _classes(self) -> str:
        self.lines, self.names = [], {}
        for version in self.versions:
            self._struct(self.schema["name"], self.schema["fields"], version, nested=False)
        return "\n".join([*self.lines, ""])

    def _versions_table(self, versions: list[int]) -> list[str]:
        name = self.schema["name"]
        rows = [f"    {version}: {name}V{version}," for version in versions]
        return ["VERSIONS: Final[dict[int, type[Any]]] = {", *rows, "}"]

    def _head(self, body: str, typing_names: str, *, importlib: bool = False) -> str:
        low, high = self.versions[0], self.versions[-1]
        span = f"version {low}" if low == high else f"versions {low}-{high}"
        lines = [
            f'"""{self.schema["name"]}, {span}.',
            "",
            f"Generated by tools/generate_schemas.py from {self.origin}.",
        ]
        lines += ['"""', ""]
        lines += ["import uuid"] if "uuid.UUID" in body else []
        lines += [
            "from dataclasses import dataclass, field" if "field(" in body else "from dataclasses import dataclass"
        ]
        lines += ["from importlib import import_module"] if importlib else []
        lines += [f"from typing import {typing_names}", "", "from kio.static.constants import EntityType"]
        if "ZERO_UUID" in body:
            lines += ["", "from crabka.ids import ZERO_UUID"]
        return "\n".join(lines)

    def _struct(self, name: str, fields: list[Json], version: int, *, nested: bool) -> None:
        specs = [FieldSpec(spec, version) for spec in fields]
        for spec in specs:
            if spec.present and spec.is_struct:
                self._nested(spec, version)
        if version in self.names.get(name, []):
            return
        self.names.setdefault(name, []).append(version)
        self.lines += ["", "@dataclass(frozen=True, slots=True, kw_only=True)", f"class {name}V{version}:"]
        kind = "nested" if nested else "data"
        self.lines.append(f"    __type__: ClassVar[EntityType] = EntityType.{kind}")
        self.lines.append(f"    __version__: ClassVar[int] = {version}")
        self.lines.append(f"    __flexible__: ClassVar[bool] = {version in self.flexible}")
        if self.api_key is not None and not nested:
            self.lines.append(f"    __api_key__: ClassVar[int] = {self.api_key}")
        for spec in specs:
            self.lines += spec.lines()
        self.lines.append("")

    def _nested(self, spec: FieldSpec, version: int) -> None:
        fields = spec.nested
        if fields is None:
            common = {struct["name"]: struct["fields"] for struct in self.schema.get("commonStructs", [])}
            fields = common[spec.element]
        self._struct(spec.element, fields, version, nested=True)


def read_schemas(jars: Path) -> Iterator[tuple[str, str, Json]]:
    """Yield (family, origin, schema) of every message, in a stable order."""
    for family, prefix in FAMILIES.items():
        candidates = [
            path for path in jars.glob(f"{prefix}-*.jar") if re.fullmatch(rf"{prefix}-[\d.]+\.jar", path.name)
        ]
        if not candidates:
            sys.exit(f"no jar {prefix}-<version>.jar in {jars}")
        with zipfile.ZipFile(candidates[0]) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".json"):
                    text = archive.read(name).decode("utf-8")
                    yield family, f"{candidates[0].stem}, {name}", load_json(text)


def index_source(entries: list[tuple[str, Json]]) -> str:
    """Return the module that says where each message lives, without importing any."""
    lines = ['"""Names of all generated messages by family.', "", "Generated by tools/generate_schemas.py.", '"""', ""]
    lines += ["from typing import Final, NamedTuple", "", ""]
    lines += [
        "class MessageEntry(NamedTuple):",
        '    """One message: its module below the family, class, kind, key and version range."""',
        "",
    ]
    lines += ["    family: str", "    module: str", "    name: str", "    kind: str", "    api_key: int | None"]
    lines += ["    min_version: int", "    max_version: int", "", "", "MESSAGES: Final[tuple[MessageEntry, ...]] = ("]
    for family, schema in entries:
        name = schema["name"]
        versions = list(Versions.parse(schema["validVersions"]))
        fields = [family, snake(name), name, schema["type"]]
        text = ", ".join(json.dumps(field) for field in fields)
        lines.append(f"    MessageEntry({text}, {schema.get('apiKey')}, {versions[0]}, {versions[-1]}),")
    return "\n".join([*lines, ")", ""])


def message_files(family: str, schema: Json, origin: str) -> dict[Path, str]:
    """Return the modules of a message: the newest version, and the older ones apart as a start seldom needs them."""
    versions = list(Versions.parse(schema["validVersions"]))
    name = snake(schema["name"])
    newest = MessageWriter(family, schema, origin, versions[-1:])
    if len(versions) == 1:
        return {Path(family, f"{name}.py"): newest.newest_source(None)}
    older = MessageWriter(family, schema, origin, versions[:-1])
    return {
        Path(family, f"{name}.py"): newest.newest_source(older),
        Path(family, f"{name}_older.py"): older.older_source(versions[-1]),
    }


def main() -> None:
    """Generate everything and record a digest, so that hand edits are found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("jars", type=Path)
    parser.add_argument("--output", type=Path, default=Path("src/crabka/protocol/generated"))
    arguments = parser.parse_args()
    entries: list[tuple[str, Json]] = []
    files: dict[Path, str] = {
        Path("__init__.py"): '"""Schemas of Kafka\'s stored records, generated by tools/generate_schemas.py."""\n'
    }
    for family, origin, schema in read_schemas(arguments.jars):
        entries.append((family, schema))
        files[Path(family, "__init__.py")] = f'"""Generated schemas: {FAMILIES[family]}."""\n'
        files |= message_files(family, schema, origin)
    files[Path("index.py")] = index_source(entries)
    digests = {}
    for path, text in sorted(files.items()):
        target = arguments.output / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        digests[path.as_posix()] = hashlib.sha256(text.encode()).hexdigest()
    listing = "".join(f"{digest}  {path}\n" for path, digest in digests.items())
    (arguments.output / "SHA256SUMS").write_text(listing, encoding="ascii")


if __name__ == "__main__":
    main()
