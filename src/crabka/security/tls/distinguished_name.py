"""The subject of a certificate as text, as Java's X500Principal.getName writes it (RFC 2253).

Names of attributes are those of RFC 2253; others are written as their numbers, with the value as hexadecimal DER.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from crabka.errors import WireError

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_ID: Final = 0x06
_VERSION: Final = 0xA0
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# UTF8String, NumericString, PrintableString, TeletexString, IA5String, VisibleString, UniversalString, BMPString.
_ENCODINGS: Final = {
    0x0C: "utf-8",
    0x12: "ascii",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1A: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
# Fields of TBSCertificate before the subject: serial number, signature, issuer, validity.
_BEFORE_SUBJECT: Final = 4


class _Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def subject_of(certificate: bytes) -> str:
    """Return the name of the subject of a certificate in DER. Raises WireError."""
    try:
        (outer,) = _elements(certificate)
        fields = _elements(_elements(outer.content)[0].content)
        if fields[0].tag == _VERSION:
            del fields[0]
        subject = fields[_BEFORE_SUBJECT]
        return ",".join(_relative_name(each) for each in reversed(_elements(subject.content)))
    except (IndexError, ValueError) as error:
        raise WireError("the subject of a certificate cannot be read") from error


def _elements(data: bytes) -> list[_Element]:
    elements = []
    position = 0
    while position < len(data):
        start = position
        tag, length = data[position], data[position + 1]
        position += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[position : position + size])
            position += size
        end = position + length
        if end > len(data):
            raise ValueError("an element is cut off")
        elements.append(_Element(tag, data[position:end], data[start:end]))
        position = end
    return elements


def _relative_name(element: _Element) -> str:
    return "+".join(_attribute(each) for each in _elements(element.content))


def _attribute(element: _Element) -> str:
    kind, value = _elements(element.content)
    number = _object_id(kind.content)
    keyword, encoding = _KEYWORDS.get(number), _ENCODINGS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or number}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode(encoding))}"


def _object_id(content: bytes) -> str:
    numbers = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(text: str) -> str:
    inner = text.strip(" ")
    escaped = "".join(f"\\{character}" if character in _ESCAPED else character for character in inner)
    lead = len(text) - len(text.lstrip(" "))
    return "\\ " * lead + escaped + "\\ " * (len(text) - lead - len(inner))
