"""Archives, pickles and images that are small in a file and huge in memory."""

import gzip
import io
import pickle
import struct
import tarfile

import numpy as np
import pytest
from PIL import Image

from cophenet._common.pickles import read_plain_pickle
from cophenet.data.augmentation import CentreCrop, RandomCrop
from cophenet.data.cifar_files import CIFAR100_LAYOUTS, read_batches
from cophenet.data.fashion_mnist import read_idx
from cophenet.data.image_files import ImageFiles

from .written import idx_bytes, pack, write_cifar100_python

LAYOUT = CIFAR100_LAYOUTS[0]


class Stream(io.BytesIO):
    """Refuses to be asked for much more than there is, as memory is taken for what is asked for."""

    def read(self, size=-1):
        assert size < 10**7
        return super().read(size)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**31) + b".", "truncated, damaged"),  # bytes
        (b"\x80\x04\x8d" + struct.pack("<Q", 2**31) + b".", "truncated, damaged"),  # text
        (
            b"\x80\x05\x96" + struct.pack("<Q", 2**31) + b".",
            "2147483648 bytes declared, 1 there",
        ),  # bytearray
        (b"\x80\x04B" + struct.pack("<I", 2**31) + b".", "truncated, damaged"),
        (b"\x80\x02\x8b" + struct.pack("<i", 2**30) + b".", "truncated, damaged"),  # a number
        (b"\x80\x04\x95" + struct.pack("<Q", 2**40) + b".", "truncated, damaged"),  # a frame
        (b"\x80\x04\x8f(K\x01\x90.", "refused, it holds something else"),
        (b"\x80\x02}(NK\x01u.", "refused, it has a key of type NoneType"),
        (b"\x80\x02(NK\x01d.", "refused, it has a key of type NoneType"),
        (b"\x80\x02}K\x01\x85K\x02s.", "refused, it has a key of type tuple"),
    ],
)
def test_pickles_take_no_memory_for_what_is_not_there(content, message):
    with pytest.raises(ValueError, match=message):
        read_plain_pickle(Stream(content), "batch")


def test_a_far_place_in_the_memo_takes_no_memory():
    # The unpickler in C makes a table of 2**29 entries for this.
    assert read_plain_pickle(Stream(b"\x80\x02]r\xff\xff\xff\x1f."), "batch") == []


def test_values_that_share_parts_are_neither_hashed_nor_written_out(tmp_path):
    shared = ()
    for _ in range(60):
        shared = (shared, shared)
    with pytest.raises(ValueError, match="key of type tuple"):
        read_plain_pickle(
            io.BytesIO(pickle.dumps({"a": 1})[:-1] + pickle.dumps(shared)[2:-1] + b"K\x01s."), "b"
        )
    folder = write_cifar100_python(tmp_path / LAYOUT.folder)
    content = {"fine_label_names": [shared], "coarse_label_names": []}
    (folder / "meta").write_bytes(pickle.dumps(content))
    with pytest.raises(ValueError, match="meta: fine_label_names must be a list of names"):
        read_batches(LAYOUT, folder)


def test_a_pickle_is_read_to_the_limit(monkeypatch):
    monkeypatch.setenv("COPHENET_MAX_UNPACKED_BYTES", "100")
    with pytest.raises(ValueError, match=r"batch: larger than 100 bytes \(limit; COPHENET_MAX"):
        read_plain_pickle(io.BytesIO(pickle.dumps(b"x" * 200)), "batch")


def write_archive(path, *members):
    """A .tar.gz of (name, content or size, changes of the header)."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content, changes in members:
            info = tarfile.TarInfo(f"{LAYOUT.folder}/{name}")
            info.size = len(content)
            for key, value in changes.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(content))
    return path


def test_archives_are_no_bombs(tmp_path, monkeypatch):
    monkeypatch.setenv("COPHENET_MAX_UNPACKED_BYTES", "10000000")
    path = write_archive(tmp_path / f"{LAYOUT.folder}.tar.gz", ("train", bytes(20_000_000), {}))
    assert path.stat().st_size < 100_000
    with pytest.raises(ValueError, match=r"tar.gz: .* kB unpack to more than 10 MB \(limit; COPHENET_MAX"):
        read_batches(LAYOUT, path)
    # Beside its files, and in the header of a file.
    path = write_archive(path, ("other", bytes(20_000_000), {}), ("train", b"", {}))
    with pytest.raises(ValueError, match="unpack to more than 10 MB"):
        read_batches(LAYOUT, path)
    path = write_archive(path, ("long", bytes(20_000_000), {"type": tarfile.GNUTYPE_LONGNAME}))
    with pytest.raises(ValueError, match="unpack to more than 10 MB"):
        read_batches(LAYOUT, path)


def test_links_in_archives_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(pickle.dumps({"data": 1}))
    members = [
        (name, b"", {"type": kind, "linkname": target})
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE)
        for name, target in (("train", "train"), ("test", str(secret)), ("meta", "../../secret"))
    ]
    path = write_archive(tmp_path / f"{LAYOUT.folder}.tar.gz", *members)
    with pytest.raises(FileNotFoundError, match="lacks train, test, meta"):
        read_batches(LAYOUT, path)


def test_an_archive_of_too_many_files(tmp_path, monkeypatch):
    path = pack(write_cifar100_python(tmp_path / LAYOUT.folder), tmp_path / "a" / f"{LAYOUT.folder}.tar.gz")
    assert len(read_batches(LAYOUT, path)[0]) == 2
    monkeypatch.setattr("cophenet.data.cifar_files._MEMBERS", 3)
    with pytest.raises(ValueError, match=r"more than 3 files in it \(limit\)"):
        read_batches(LAYOUT, path)


def test_an_archive_that_goes_round_in_circles(tmp_path):
    header = bytearray(tarfile.TarInfo("x").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 10 + (-512 & 0xFFFF).to_bytes(2, "big")  # a negative size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path = tmp_path / f"{LAYOUT.folder}.tar.gz"
    path.write_bytes(gzip.compress(bytes(header) * 3 + bytes(1024)))
    with pytest.raises((ValueError, FileNotFoundError)):
        read_batches(LAYOUT, path)


def test_gzipped_arrays_are_no_bombs(tmp_path, monkeypatch):
    path = tmp_path / "images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(idx_bytes(np.zeros((100, 28, 28), np.uint8))))
    assert read_idx(path).shape == (100, 28, 28)
    monkeypatch.setenv("COPHENET_MAX_UNPACKED_BYTES", "20000")
    with pytest.raises(ValueError, match=r"ubyte.gz: .* unpack to more than 20 kB \(limit; COPHENET_MAX"):
        read_idx(path)


def files(path):
    return ImageFiles([str(path)], CentreCrop(8, 9), RandomCrop())


@pytest.mark.filterwarnings("ignore:Image size")
@pytest.mark.parametrize(
    ("most", "message"), [(1000, r"40 x 30 pixels, more than 1,000 \(limit"), (100, "exceeds limit of 200")]
)
def test_images_are_no_bombs(tmp_path, monkeypatch, most, message):
    path = tmp_path / "a.png"
    Image.new("RGB", (40, 30)).save(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
    with pytest.raises(ValueError, match=rf"image .*a.png cannot be read: .*{message}"):
        files(path).take(np.array([0]))


@pytest.mark.parametrize("start", [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"8BPS"])
def test_decoders_that_start_programs_are_not_asked(start, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(start + bytes(500))
    with pytest.raises(ValueError, match=r"a.png cannot be read: cannot identify image file"):
        files(path).take(np.array([0]))
