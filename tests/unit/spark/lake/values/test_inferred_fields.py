from __future__ import annotations

import pyarrow as pa
import pytest

from crabka.spark.lake.values.inferred_fields import InferredFields, grown

INT = pa.int64()


def struct(**members: pa.DataType) -> pa.DataType:
    return pa.struct(list(members.items()))


def test_what_is_found_is_added_wherever_it_is() -> None:
    inferred = InferredFields([pa.field("o", struct(x=INT)), pa.field("n", INT)])
    assert inferred.look_at(struct(n=INT)) == []
    assert inferred.new == []
    assert inferred.look_at(struct(o=struct(y=pa.string()), l=pa.list_(struct(z=INT)))) == []
    assert inferred.new == [
        pa.field("o", struct(x=INT, y=pa.string())),
        pa.field("l", pa.list_(struct(z=INT))),
    ]


def test_what_was_never_seen_with_a_value_is_not_added() -> None:
    inferred = InferredFields([])
    empty = struct(a=pa.null(), b=pa.list_(pa.null()), c=pa.struct([]), d=pa.list_(struct(e=pa.null())))
    assert (inferred.look_at(empty), inferred.new) == ([], [])


def test_of_types_that_exclude_each_other_the_first_stays() -> None:
    known = [pa.field("a", INT), pa.field("s", struct(x=INT))]
    assert grown(known, [pa.field("a", pa.string()), pa.field("s", pa.list_(INT))]) == tuple(known)


@pytest.mark.parametrize(
    ("known", "found", "reason"),
    [
        (struct(), struct(kafka_offset=INT), "the name of a column of the log"),
        (struct(), struct(Kafka_Key=INT), "the name of a column of the log"),
        (struct(), struct(kafka_date=INT), "the name of a column of the log"),
        (struct(), pa.struct([("kafka_headers.element.key", INT)]), "the name of a column of the log"),
        (struct(), pa.struct([("a\0b", INT)]), "has a NUL"),
        (struct(a=INT), struct(A=INT), "field A has the name of the column a,"),
        (struct(), struct(a=INT, A=INT), "field A has the name of the column a,"),
        (struct(), struct(s=struct(a=INT, A=INT)), r"field s\.A has the name of the column s\.a,"),
        (struct(s=struct(a=INT)), struct(s=struct(A=INT)), r"field s\.A has the name of the column s\.a,"),
        (struct(l=pa.list_(struct(a=INT))), struct(l=pa.list_(struct(A=INT))), r"l\.element\.A"),
        (struct(a=struct(b=INT)), pa.struct([("a.b", INT)]), r"column a\.b,"),
        (pa.struct([("a.b", INT)]), struct(a=struct(b=INT)), r"column a\.b,"),
        (pa.struct([("a.element", INT)]), struct(a=pa.list_(INT)), r"column a\.element,"),
        (struct(m=pa.map_(pa.string(), INT)), pa.struct([("m.value", INT)]), r"column m\.value,"),
    ],
)
def test_a_field_with_the_name_of_another_column_is_refused(
    known: pa.DataType, found: pa.DataType, reason: str
) -> None:
    inferred = InferredFields(list(known))
    [refusal] = inferred.look_at(found)
    with pytest.raises(ValueError, match=reason):
        raise ValueError(refusal.reason)
    assert [field.name for field in inferred.new if field.name not in ("a", "s")] == []


def test_what_stands_beside_a_refused_field_is_added() -> None:
    inferred = InferredFields([pa.field("s", struct(a=INT))])
    assert len(inferred.look_at(struct(s=struct(A=INT, b=INT), kafka_key=INT, c=INT))) == 2
    assert inferred.new == [pa.field("s", struct(a=INT, b=INT)), pa.field("c", INT)]


def test_rows_that_have_a_refused_field_are_found_at_any_depth() -> None:
    kind = struct(l=pa.list_(struct(a=INT, o=pa.list_(struct(kafka=INT, KAFKA=INT)))))
    rows = [
        {"l": [{"o": [{"kafka": 1}]}]},
        {"l": None},
        {"l": [{"a": 1}, {"o": [{"kafka": 1}, {"KAFKA": 2}, {"KAFKA": 3}]}]},
        None,
        {"l": [{"o": [{"KAFKA": 4}]}]},
    ]
    [refusal] = InferredFields([]).look_at(kind)
    assert refusal.rows_in(pa.array(rows, kind)) == [2, 4]


def test_a_list_of_which_nothing_could_be_added_takes_no_name() -> None:
    inferred = InferredFields([])
    assert inferred.look_at(struct(x=pa.list_(pa.struct([("n\0", INT)]))))
    assert inferred.look_at(struct(x=pa.list_(struct(b=INT)))) == []
    assert inferred.new == [pa.field("x", pa.list_(struct(b=INT)))]
