"""FIELDS, the one table of a job's fields, and all that has them: the records, the tables, the API."""

import inspect
import re
from typing import get_type_hints

import pytest

from pywheel import BadJob
from pywheel.jobs.job import FIELDS, OF_JOB, OF_NEW_JOB, Job, NewJob
from pywheel.jobs.new_job import new_job
from pywheel.stores.sql.schema import TABLES, TYPES

NAMES = [field.name for field in FIELDS]


@pytest.mark.parametrize(("record", "place"), [(NewJob, OF_NEW_JOB), (Job, OF_JOB)])
def test_both_records_have_the_fields_in_their_order(record, place):
    assert list(record._fields[place]) == NAMES
    hints = get_type_hints(record)
    for field in FIELDS:
        assert field.type.__name__ in str(hints[field.name]), field.name


def test_a_new_job_has_the_defaults():
    new = NewJob("t", b"", 0)
    assert [getattr(new, field.name) for field in FIELDS] == [field.default for field in FIELDS]
    given = inspect.signature(new_job).parameters
    assert [given[field.name].default for field in FIELDS] == [field.default for field in FIELDS]


@pytest.mark.parametrize("table", ["job", "finished"])
def test_both_tables_have_a_column_for_each_field(table):
    [columns] = re.findall(rf"CREATE TABLE {table} \((.*?)\n\)", TABLES, re.DOTALL)
    found = dict(re.findall(r"^    (\w+) \{(\w+)\}", columns, re.MULTILINE))
    for field in FIELDS:
        assert found[field.name] == TYPES[field.name], field.name


def test_the_api_takes_and_shows_each_field():
    pytest.importorskip("msgspec")
    from pywheel.server.api import schema

    for shape in (schema.NewJob, schema.JobOut):
        assert set(NAMES) <= set(shape.__struct_fields__)


@pytest.mark.parametrize("field", FIELDS, ids=NAMES)
def test_a_check_refuses_what_no_store_takes(field):
    class Other:
        def items(self):
            return [(1, 2)]

    with pytest.raises(BadJob):
        field.check(Other(), field.name)
