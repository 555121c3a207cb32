"""A folder whose names are remembered tells the same as the folder itself."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.log.folder import ListedFolder
from barnabas.ports.files import Files
from barnabas.world.memory import MemoryFiles

_NAMES = st.sampled_from(["a", "b", "c", "d.tmp"])
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "open", "rename", "remove", "replace", "make", "tree", "lock"]),
        _NAMES,
        _NAMES,
    ),
    max_size=12,
)


def _do(files: Files, what: str, path: str, other: str) -> str:
    try:
        match what:
            case "create":
                files.open(path, create=True).close()
            case "open":
                files.open(path).close()
            case "rename":
                files.rename(path, other)
            case "remove":
                files.remove(path)
            case "replace":
                files.replace(path, b"12")
            case "make":
                files.make_dirs(path)
            case "tree":
                files.remove_tree(path)
            case "lock":
                files.lock(path).release()
    except OSError as error:
        return type(error).__name__
    return "done"


def _told(files: Files) -> object:
    names = ["a", "b", "c", "d.tmp", "e"]
    return (
        list(files.list("data")),
        [files.exists(f"data/{name}") for name in names],
        files.exists("data"),
        files.exists("elsewhere/a"),
    )


@given(_STEPS)
def test_it_tells_what_the_folder_tells(steps: list[tuple[str, str, str]]) -> None:
    plain, real = MemoryFiles(), MemoryFiles()
    for files in (plain, real):
        files.make_dirs("data")
        files.replace("data/a", b"1")
        files.make_dirs("elsewhere")
    listed = ListedFolder(real, "data")
    for what, name, other in steps:
        asked = (what, f"data/{name}", f"data/{other}")
        assert _do(listed, *asked) == _do(plain, *asked)
        assert _told(listed) == _told(plain)
    listed.forget()
    assert _told(listed) == _told(plain)


def test_what_others_do_is_seen_once_it_has_forgotten() -> None:
    real = MemoryFiles()
    real.make_dirs("data")
    listed = ListedFolder(real, "data")
    real.replace("data/new", b"1")
    assert not listed.exists("data/new")
    listed.forget()
    assert listed.exists("data/new")
    assert list(listed.list("data")) == ["new"]
    assert listed.read("data/new") == b"1"
    assert listed.size_of("data/new") == 1
    assert listed.open_read_only("data/new").pread(1, 0) == b"1"
    assert listed.free_bytes("data") > 0
    listed.sync_dir("data")
