"""Whatever is wrong with a study or a panel, the steward reads one line that says where, and nobody's data."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproc.errors import PanelFileError, StudyError
from streamproc.files.study_files import read_people, read_study
from streamproc.study import parse_study
from tests.bad_input import BAD_PANELS, BAD_STUDIES, GOOD_STUDY, PANEL_STUDY, SECRETS


def test_the_study_the_bad_ones_are_made_from_is_good() -> None:
    assert parse_study(GOOD_STUDY).name == "poverty"


@pytest.mark.parametrize(("text", "key"), [row[1:] for row in BAD_STUDIES], ids=[row[0] for row in BAD_STUDIES])
def test_a_bad_study_is_refused_in_one_line_that_names_the_key(text: str, key: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_study(text)
    message = str(caught.value)
    exact = not key.endswith("hhh")
    assert caught.value.key == key if exact else caught.value.key.startswith(key)
    assert message.startswith(key)
    assert len(message.splitlines()) == 1
    assert message.isprintable()
    assert len(message) < 300
    assert "secret" not in message


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("[study\nname = 3", "text that is not TOML at line 1, column 7"),
        ("[study]\nname = secret", "text that is not TOML at line 2, column 8"),
        ("[secret]\n[secret]", "text that is not TOML at line 2, column 8"),
        ("a = {secret = 1, secret = 2}", "text that is not TOML at line 1, column 28"),
        ('name = "secret', "text that is not TOML at end of document"),
        ("individual,1,2\nsecret,0,1", "text that is not TOML at line 1, column 11"),
        ("\na = 1" + ".1" * 1001, "more than 1000 dots at line 2"),
    ],
)
def test_what_is_not_toml_is_named_by_its_file_and_its_place_and_not_quoted(tmp_path: Path, text: str, got: str) -> None:
    path = tmp_path / "poverty.toml"
    path.write_text(text)
    with pytest.raises(StudyError) as caught:
        read_study(path)
    assert str(caught.value).startswith(f"study file {path}: got {got}, allowed: ")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("name", "content", "where"), [row[1:] for row in BAD_PANELS], ids=[row[0] for row in BAD_PANELS])
def test_a_bad_panel_is_refused_in_one_line_that_quotes_nobody(
    tmp_path: Path, name: str, content: bytes, where: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(PanelFileError) as caught:
        read_people(path, parse_study(PANEL_STUDY))
    message = str(caught.value)
    assert where in message.removeprefix(f"{path}:")
    assert message.startswith(f"{path}: ")
    assert len(message.splitlines()) == 1
    assert not any(secret in message for secret in SECRETS)
    # A traceback must not quote the file either.
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("individual,2,1,3\n", "line 1, column 2: expected the header individual,1,...,3, so this column must be named 1"),
        ("id,1,2,3\n", "line 1, column 1: expected the header individual,1,...,3, so this column must be named individual"),
        ("individual;1;2;3\n", "line 1: expected the header individual,1,...,3 of 4 columns, but there are 1"),
        (
            "individual,1,2,3\nzoe-secret,0, 1,0\n",
            "line 2, column 3 (period 2): expected one of the 2 symbols of the alphabet, exactly as the study writes it, or "
            "nothing if it is missing",
        ),
    ],
)
def test_a_bad_panel_is_refused_with_the_line_the_column_and_what_belongs_there(
    tmp_path: Path, content: str, says: str
) -> None:
    path = tmp_path / "panel.csv"
    path.write_text(content)
    with pytest.raises(PanelFileError) as caught:
        read_people(path, parse_study(PANEL_STUDY))
    assert str(caught.value) == f"{path}: {says}"


def test_every_bad_input_has_its_own_label() -> None:
    for table in (BAD_STUDIES, BAD_PANELS):
        labels = [row[0] for row in table]
        assert len(set(labels)) == len(labels)
