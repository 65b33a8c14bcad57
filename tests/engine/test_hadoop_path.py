"""A `HadoopPath` does what `pathlib.Path` does, on a local disk, on HDFS and on S3."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.files import is_on_local_disk, is_reachable_folder, remove_tree, write_atomically, write_new
from sessionization.hadoop_path import AnyPath, HadoopPath
from tests.support.hdfs import Hdfs
from tests.support.s3 import PYTHON, S3

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        yield running


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[S3]:
    if not PYTHON.exists():
        pytest.skip("needs make .venv/.s3")
    with S3(tmp_path_factory.mktemp("s3")) as running:
        running.let_reach(spark)
        yield running


@pytest.fixture(params=["file:", *(pytest.param(storage, marks=pytest.mark.long) for storage in ("hdfs", "s3"))])
def folder(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> HadoopPath:
    """An empty folder of a local disk, of HDFS or of S3, with the path of `tmp_path`."""
    del spark  # starts Hadoop
    storage = "file:" if request.param == "file:" else request.getfixturevalue(request.param).uri
    folder = HadoopPath(f"{storage}{tmp_path}")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_text_is_written_replaced_and_read(folder: HadoopPath) -> None:
    file = folder / "a b.json"
    for text in ("é" * 100_000, "", "second"):
        write_atomically(file, text)
        assert file.read_text() == text
        assert file.read_bytes() == text.encode()
    assert [entry.name for entry in folder.iterdir()] == ["a b.json"]


def test_of_two_programs_that_write_a_new_file_one_succeeds(folder: HadoopPath) -> None:
    file = folder / "layout.json"
    texts = ["first", "second"]

    def write(text: str) -> bool:
        try:
            write_new(file, text)
        except FileExistsError:
            return False
        return True

    # Hadoop's local file system renames in two steps; nobody reaches a disk by it.
    with ThreadPoolExecutor(1 if file.uri.startswith("file:") else 2) as programs:
        succeeded = list(programs.map(write, texts))
    assert sum(succeeded) == 1
    assert file.read_text() == texts[succeeded.index(True)]
    assert not write("third")
    assert [entry.name for entry in folder.iterdir()] == ["layout.json"]


def test_its_parts_are_those_of_a_path(folder: HadoopPath) -> None:
    file = folder / "sources" / "0" / "9.compact"
    assert (file.name, file.stem, file.parent.name) == ("9.compact", "9", "0")
    assert file.with_name("x") == folder / "sources" / "0" / "x"
    assert (folder / "plain").stem == "plain"
    assert file.absolute() == file
    assert len({file, HadoopPath(str(file))}) == 1


def test_files_and_folders_are_told_apart(folder: HadoopPath) -> None:
    write_atomically(folder / "file", "x")
    (folder / "a" / "b").mkdir(parents=True, exist_ok=True)
    seen = {
        name: ((folder / name).exists(), (folder / name).is_dir(), (folder / name).is_file())
        for name in ("file", "a", "no")
    }
    assert seen == {"file": (True, False, True), "a": (True, True, False), "no": (False, False, False)}
    assert is_reachable_folder(folder / "a")
    assert not is_on_local_disk(folder)


@pytest.mark.parametrize("pattern", ["[!._]*.json", "*.txt", "[a-z]*"])
def test_a_pattern_finds_what_pathlib_finds(folder: HadoopPath, tmp_path: Path, pattern: str) -> None:
    for name in ("a.json", ".hidden.json", "_x.json", "b.txt", "in/c.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
        write_atomically(folder / name, "")
    found = {entry.uri.removeprefix(f"{folder}/") for entry in folder.glob(pattern)}
    assert found == {str(entry.relative_to(tmp_path)) for entry in tmp_path.glob(pattern)}


def test_the_size_and_time_of_a_file_are_known(folder: HadoopPath) -> None:
    before_ns = time.time_ns() // 1_000_000_000 * 1_000_000_000  # S3 has whole seconds
    write_atomically(folder / "file", "12345")
    found = (folder / "file").stat()
    assert found.st_size == 5
    assert before_ns <= found.st_mtime_ns <= time.time_ns()


def test_files_and_trees_are_deleted(folder: HadoopPath) -> None:
    write_atomically(folder / "a" / "file", "x")
    (folder / "a" / "file").unlink()
    (folder / "a" / "file").unlink(missing_ok=True)
    remove_tree(folder / "a")
    write_atomically(folder / "b" / "c" / "file", "x")
    for _ in range(2):
        remove_tree(folder / "b")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("do", "error"),
    [
        (lambda folder: (folder / "no").read_bytes(), FileNotFoundError),
        (lambda folder: (folder / "no").stat(), FileNotFoundError),
        (lambda folder: list((folder / "no").iterdir()), FileNotFoundError),
        (lambda folder: (folder / "no").unlink(), FileNotFoundError),
        (
            lambda folder: (folder / "file" / "x").mkdir(parents=True, exist_ok=True),
            (NotADirectoryError, FileExistsError),  # the second on S3
        ),
    ],
)
def test_an_error_is_the_one_of_pathlib(
    folder: HadoopPath, do: Callable[[AnyPath], object], error: type[OSError] | tuple[type[OSError], ...]
) -> None:
    write_atomically(folder / "file", "x")
    with pytest.raises(error) as raised:
        do(folder)
    assert str(raised.value.filename).startswith(str(folder))


def test_an_unknown_storage_is_an_error_with_hadoops_message(spark: SparkSession) -> None:
    del spark
    with pytest.raises(OSError, match='No FileSystem for scheme "hdsf"') as raised:
        HadoopPath("hdsf://name/data").exists()
    assert raised.value.filename == "hdsf://name/data"
