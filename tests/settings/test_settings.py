"""Settings: where values come from, and what wrong ones are told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast import settings
from holdfast.errors import SettingsError
from holdfast.settings import Origin, Setting, Settings, load


def fault(
    root: Path, environ: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> str:
    with pytest.raises(SettingsError) as caught:
        load(root=root, environ=environ or {}, flags=flags)
    return str(caught.value)


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / {"toml": "holdfast.toml", "pyproject": "pyproject.toml", "env": ".env"}[name]
        path.write_text(text, encoding="utf-8")


# Where values come from


def test_defaults(tmp_path: Path) -> None:
    """Without any source every setting has its default and says so."""
    resolved = load(root=tmp_path, environ={}, flags=None)
    assert resolved.settings == Settings(
        home=None,
        durability="full",
        redact=[],
        recover_limit=8,
        flush_after_ms=5.0,
        blob_over_bytes=32768,
        crash_loop_after=5,
        tool_repeats=20,
    )
    assert set(resolved.origins.values()) == {Origin("default", "")}
    assert list(resolved.origins) == list(Settings.__struct_fields__)


def test_default_lists_are_not_shared(tmp_path: Path) -> None:
    """Changing the list of one load does not change the default of the next."""
    load(root=tmp_path, environ={}).settings.redact.append("x")
    assert load(root=tmp_path, environ={}).settings.redact == []


SOURCES = ["pyproject", "file", "dotenv", "environment", "flag"]
PLACES = {
    "pyproject": "pyproject.toml:2",
    "file": "holdfast.toml:1",
    "dotenv": ".env:1",
    "environment": "HOLDFAST_RECOVER_LIMIT",
    "flag": "--recover-limit",
}


@pytest.mark.parametrize("strongest", range(1, len(SOURCES) + 1))
def test_precedence(tmp_path: Path, strongest: int) -> None:
    """Each source overrides all weaker ones, and the origin names the one that won."""
    given = SOURCES[:strongest]
    if "pyproject" in given:
        write(tmp_path, pyproject="[tool.holdfast]\nrecover_limit = 1\n")
    if "file" in given:
        write(tmp_path, toml="recover_limit = 2\n")
    if "dotenv" in given:
        write(tmp_path, env="HOLDFAST_RECOVER_LIMIT=3\n")
    environ = {"HOLDFAST_RECOVER_LIMIT": "4"} if "environment" in given else {}
    flags = {"recover_limit": 5} if "flag" in given else {}
    resolved = load(root=tmp_path, environ=environ, flags=flags)
    assert resolved.settings.recover_limit == strongest
    assert resolved.origins["recover_limit"] == Origin(given[-1], PLACES[given[-1]])  # type: ignore[arg-type]


def test_a_flag_of_none_was_not_given(tmp_path: Path) -> None:
    """A flag that is None leaves the value of a weaker source."""
    resolved = load(root=tmp_path, environ={"HOLDFAST_HOME": "/a"}, flags={"home": None})
    assert (resolved.settings.home, resolved.origins["home"].kind) == ("/a", "environment")


def test_a_flag_may_be_a_path(tmp_path: Path) -> None:
    """A Path given for a path setting is taken as its text."""
    assert load(root=tmp_path, environ={}, flags={"home": tmp_path}).settings.home == str(tmp_path)


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    """`HOLDFAST_HOME=` is how a shell unsets a value for one command."""
    write(tmp_path, toml='home = "/a"\n', env="HOLDFAST_DURABILITY=\n")
    resolved = load(root=tmp_path, environ={"HOLDFAST_HOME": ""})
    assert (resolved.settings.home, resolved.settings.durability) == ("/a", "full")


def test_variables_of_other_programs_are_not_read(tmp_path: Path) -> None:
    """Only names with the prefix matter, and the documented ones that are no settings are let be."""
    write(tmp_path, env="DATABASE_URL='unclosed\nHOLDFAST_DEBUG=1\n")
    environ = {"DURABILITY": "x", **dict.fromkeys(settings.OTHER_VARIABLES, "1")}
    assert load(root=tmp_path, environ=environ).settings == Settings()


def test_relative_paths_in_files_count_from_the_root(tmp_path: Path) -> None:
    """A path in a file means the same from every working directory; `~` and variables are left alone."""
    write(tmp_path, toml='home = "store"\n')
    assert load(root=tmp_path, environ={}).settings.home == str(tmp_path / "store")
    write(tmp_path, toml='home = "~/store"\n')
    assert load(root=tmp_path, environ={}).settings.home == "~/store"
    assert load(root=tmp_path, environ={"HOLDFAST_HOME": "store"}).settings.home == "store"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b", ["a", "b"]),
        (" a , b ,", ["a", "b"]),
        ('["a,b", "c{1,2}"]', ["a,b", "c{1,2}"]),
        ("[a-z]+", ["[a-z]+"]),
        ("[]", []),
    ],
)
def test_lists_in_variables(tmp_path: Path, text: str, expected: list[str]) -> None:
    """A list is a JSON array, or items between commas."""
    assert load(root=tmp_path, environ={"HOLDFAST_REDACT": text}).settings.redact == expected


def test_numbers_in_variables(tmp_path: Path) -> None:
    """Text becomes the setting's type."""
    environ = {"HOLDFAST_FLUSH_AFTER_MS": "2.5", "HOLDFAST_BLOB_OVER_BYTES": "0"}
    got = load(root=tmp_path, environ=environ).settings
    assert (got.flush_after_ms, got.blob_over_bytes) == (2.5, 0)


def test_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    """A directory's name need not be UTF-8: it arrives with surrogates and stays so."""
    name = b"/a/\xff".decode("utf-8", "surrogateescape")
    assert load(root=tmp_path, environ={"HOLDFAST_HOME": name}).settings.home == name


@pytest.mark.parametrize(
    "text",
    [
        "[tool.holdfast]\nrecover_limit = 3",
        '[ "tool" . holdfast ]\nrecover_limit = 3',
        "[tool]\nholdfast.recover_limit = 3",
        "[tool]\nholdfast = {recover_limit = 3}",
        "tool.holdfast.recover_limit = 3",
        "tool = {holdfast = {recover_limit = 3}}",
    ],
)
def test_every_spelling_of_the_table_in_pyproject(tmp_path: Path, text: str) -> None:
    """The quick look that spares parsing misses no way to write `tool.holdfast`."""
    write(tmp_path, pyproject=text)
    assert load(root=tmp_path, environ={}).settings.recover_limit == 3


def test_a_broken_pyproject_without_our_table_is_not_our_business(tmp_path: Path) -> None:
    """holdfast works beside a pyproject.toml that is broken for other tools."""
    write(tmp_path, pyproject="[project\ndependencies = ['holdfast']\n")
    assert load(root=tmp_path, environ={}).settings == Settings()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("HOLDFAST_HOME=/a", "/a"),
        ("export HOLDFAST_HOME=/a", "/a"),
        ("  HOLDFAST_HOME = /a b  # why", "/a b"),
        ("HOLDFAST_HOME=/a#b", "/a#b"),
        ("HOLDFAST_HOME='/a # $b \\n' # c", "/a # $b \\n"),
        ('HOLDFAST_HOME="/a \\"b\\" \\\\ \\d" # c', '/a "b" \\ \\d'),
        ("HOLDFAST_HOME=/a\r", "/a"),
        ("\ufeffHOLDFAST_HOME=/a", "/a"),
        ("HOLDFAST_HOME=/x\nHOLDFAST_HOME=/a", "/a"),
    ],
)
def test_dotenv_lines(tmp_path: Path, line: str, expected: str) -> None:
    """`.env` is read as other tools read it: export, quotes, comments, the last one wins."""
    (tmp_path / ".env").write_bytes(f"{line}\n".encode())
    assert load(root=tmp_path, environ={}).settings.home == expected


def test_dotenv_that_is_a_directory(tmp_path: Path) -> None:
    """A virtual environment named `.env` is not a settings file."""
    (tmp_path / ".env").mkdir()
    assert load(root=tmp_path, environ={}).settings == Settings()


def test_dotenv_with_foreign_bytes(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 in another program's value do no harm; in ours they are a fault."""
    (tmp_path / ".env").write_bytes(b"NAME=\xff\nHOLDFAST_DURABILITY=process\n")
    assert load(root=tmp_path, environ={}).settings.durability == "process"
    (tmp_path / ".env").write_bytes(b"HOLDFAST_HOME=\xff\n")
    assert fault(tmp_path) == ".env:1: the value is not UTF-8; save the file as UTF-8"


# Faults


def test_an_unknown_key_names_the_file_the_line_and_the_nearest(tmp_path: Path) -> None:
    """A misspelt key in a file is told with its place and what was meant."""
    write(tmp_path, toml='# ours\n\ndurabilty = "full"\n')
    assert fault(tmp_path) == "holdfast.toml:3: unknown setting 'durabilty'; did you mean durability?"


@pytest.mark.parametrize("text", ["[x]\ny = 1\n", "[[x]]\ny = 1\n", "x.y = 1\n", '"x" = 1\n'])
def test_an_unknown_table_has_a_line_too(tmp_path: Path, text: str) -> None:
    """However a key is written, its line is found; one that is near to nothing points to the list."""
    write(tmp_path, toml=text)
    assert fault(tmp_path) == "holdfast.toml:1: unknown setting 'x'; `holdfast config show` lists all"


def test_the_line_is_that_of_our_table(tmp_path: Path) -> None:
    """The same key in another tool's table is not taken for ours."""
    write(tmp_path, pyproject="[tool.a]\nhom = 1\n[tool.holdfast]\nhom = 2\n")
    assert fault(tmp_path) == "pyproject.toml:4: unknown setting 'hom'; did you mean home?"


def test_a_hyphen_for_an_underscore(tmp_path: Path) -> None:
    """`recover-limit` is unknown, and the hint has the right spelling."""
    write(tmp_path, toml="recover-limit = 1\n")
    assert fault(tmp_path) == "holdfast.toml:1: unknown setting 'recover-limit'; did you mean recover_limit?"


def test_unknown_variables(tmp_path: Path) -> None:
    """A misspelt variable is an error wherever it stands; capitals matter."""
    assert (
        fault(tmp_path, {"HOLDFAST_DURABILTY": "full"})
        == "unknown setting 'HOLDFAST_DURABILTY'; did you mean HOLDFAST_DURABILITY?"
    )
    assert (
        fault(tmp_path, {"HOLDFAST_home": "/a"})
        == "unknown setting 'HOLDFAST_home'; did you mean HOLDFAST_HOME?"
    )
    assert (
        fault(tmp_path, {"HOLDFAST_DEBGU": "1"})
        == "unknown setting 'HOLDFAST_DEBGU'; did you mean HOLDFAST_DEBUG?"
    )
    write(tmp_path, env="\nHOLDFAST_HOEM=/a\n")
    assert fault(tmp_path) == ".env:2: unknown setting 'HOLDFAST_HOEM'; did you mean HOLDFAST_HOME?"


def test_an_unknown_flag(tmp_path: Path) -> None:
    """Arguments pass the same check."""
    assert fault(tmp_path, flags={"hom": "/a"}) == "unknown setting 'hom'; did you mean home?"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'durability = "ful"',
            """durability is 'ful', but must be "full" or "process"; did you mean 'full'?""",
        ),
        ("durability = 1", 'durability is 1, but must be "full" or "process"'),
        ("recover_limit = 0", "recover_limit is 0, but must be an integer >= 1"),
        ("recover_limit = true", "recover_limit is True, but must be an integer >= 1"),
        ('recover_limit = "8"', "recover_limit is '8', but must be an integer >= 1"),
        ("flush_after_ms = inf", "flush_after_ms is inf, but must be a number >= 0 and <= 60000"),
        ("flush_after_ms = nan", "flush_after_ms is nan, but must be a number >= 0 and <= 60000"),
        ("blob_over_bytes = -1", "blob_over_bytes is -1, but must be an integer >= 0"),
        ("crash_loop_after = 0", "crash_loop_after is 0, but must be an integer >= 1"),
        ('home = ""', "home is '', but must be text"),
        ("home = 1979-05-27", "home must be text"),
    ],
)
def test_wrong_values_in_a_file(tmp_path: Path, text: str, expected: str) -> None:
    """A wrong value is told with its place, itself and what is expected."""
    write(tmp_path, toml=text + "\n")
    assert fault(tmp_path) == f"holdfast.toml:1: {expected}"


def test_wrong_values_elsewhere(tmp_path: Path) -> None:
    """Variables and flags are held to the same types."""
    assert (
        fault(tmp_path, {"HOLDFAST_RECOVER_LIMIT": "many"})
        == "HOLDFAST_RECOVER_LIMIT: recover_limit is 'many', but must be an integer >= 1"
    )
    assert fault(tmp_path, flags={"recover_limit": 0}) == "recover_limit is 0, but must be an integer >= 1"


@pytest.mark.parametrize("key", ["home", "workspace", "backup_dir", "mirror_dir"])
def test_a_home_directory_of_others_is_refused(tmp_path: Path, key: str) -> None:
    """When the settings are read, with the place: also by a command that does not need the directory."""
    variable = f"HOLDFAST_{key.upper()}"
    assert fault(tmp_path, {variable: "~nouser/x"}) == (
        f"{variable}: {key}: '~nouser/x': only the own home directory is known as ~; write the whole path"
    )
    assert getattr(load(root=tmp_path, environ={variable: "~/x"}).settings, key) == "~/x"


def test_redact_must_be_regexes_and_is_never_shown(tmp_path: Path) -> None:
    """A fault in `redact` names the item by number: the item may be the secret itself."""
    write(tmp_path, toml='redact = ["fine", "hunter2("]\n')
    message = fault(tmp_path)
    assert message.startswith("holdfast.toml:1: redact: item 2 is not a regular expression: ")
    assert "hunter2" not in message
    write(tmp_path, toml='redact = "hunter2"\n')
    assert fault(tmp_path) == "holdfast.toml:1: redact must be a list, each text"
    write(tmp_path, toml="")
    assert (
        fault(tmp_path, {"HOLDFAST_REDACT": "[hunter2]"})
        == 'HOLDFAST_REDACT: redact: what stands in [ ] must be a JSON array, such as ["a", "b"]'
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a = 1\nb = = 2\n", "holdfast.toml:2: not valid TOML: Invalid value"),
        (b"a = 1\nb", "holdfast.toml:2: not valid TOML: Expected '=' after a key in a key/value pair"),
        (b"a = 1\n\nb = '\xff'\n", "holdfast.toml:3: the file is not UTF-8; save it as UTF-8"),
    ],
)
def test_a_file_that_is_not_toml(tmp_path: Path, data: bytes, expected: str) -> None:
    """A file that cannot be decoded is told with the line."""
    (tmp_path / "holdfast.toml").write_bytes(data)
    assert fault(tmp_path) == expected


def test_our_table_must_be_a_table(tmp_path: Path) -> None:
    """`tool.holdfast` that is a value is a fault, not a crash."""
    write(tmp_path, pyproject="[tool]\nholdfast = 1\n")
    assert fault(tmp_path) == "pyproject.toml: tool.holdfast must be a table"


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A settings file without read permission is a fault: ignoring it could open another store."""
    write(tmp_path, toml="")
    open_path = Path.open

    def denied(path: Path, *how: str) -> object:
        if path.name == "holdfast.toml":
            raise PermissionError(13, "Permission denied")
        return open_path(path, *how)

    monkeypatch.setattr(Path, "open", denied)
    path = tmp_path / "holdfast.toml"
    assert fault(tmp_path) == (
        f"holdfast.toml: cannot be read: Permission denied; make {path} readable, or remove it"
    )


def test_lines_of_dotenv_that_cannot_be_read(tmp_path: Path) -> None:
    """A line of ours without a value or with broken quotes is a fault."""
    write(tmp_path, env='HOLDFAST_HOME\nHOLDFAST_HOME=\'/a\nHOLDFAST_HOME="/a" b\n')
    assert fault(tmp_path).splitlines() == [
        "3 settings are wrong:",
        "  .env:1: HOLDFAST_HOME has no value; write HOLDFAST_HOME=VALUE",
        "  .env:2: the quotes of the value do not match, or something follows them",
        "  .env:3: the quotes of the value do not match, or something follows them",
    ]


def test_all_faults_at_once(tmp_path: Path) -> None:
    """Every fault of every source has its line in one error, also what a stronger source overrides."""
    write(
        tmp_path,
        pyproject="[tool.holdfast]\nrecover_limit = 0\n",
        toml="not toml\n",
        env="HOLDFAST_CRASH_LOOP_AFTER=x\n",
    )
    environ = {"HOLDFAST_RECOVER_LIMIT": "4", "HOLDFAST_HOEM": "/a"}
    assert fault(tmp_path, environ, {"durability": "half"}).splitlines() == [
        "5 settings are wrong:",
        "  pyproject.toml:2: recover_limit is 0, but must be an integer >= 1",
        "  holdfast.toml:1: not valid TOML: Expected '=' after a key in a key/value pair",
        "  .env:1: crash_loop_after is 'x', but must be an integer >= 1",
        "  unknown setting 'HOLDFAST_HOEM'; did you mean HOLDFAST_HOME?",
        """  durability is 'half', but must be "full" or "process\"""",
    ]


# The reference


def test_every_setting_is_described() -> None:
    """The list for `config show` and the docs has key, variable, type, default and a description."""
    listed = {setting.key: setting for setting in settings.reference()}
    assert list(listed) == list(Settings.__struct_fields__)
    assert all(setting.description.endswith(".") for setting in listed.values())
    assert listed["recover_limit"] == Setting(
        key="recover_limit",
        variable="HOLDFAST_RECOVER_LIMIT",
        type="an integer >= 1",
        default=8,
        description="How many runs `recover` drives at once.",
    )


def test_importing_costs_little() -> None:
    """What only some calls need is not loaded by the import: every CLI command pays for it."""
    code = (
        "import sys, msgspec; before = set(sys.modules); import holdfast.settings, holdfast.project; "
        "print(*(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"tomllib", "difflib", "subprocess", "tempfile", "json", "msgspec.inspect"} & set(loaded)
