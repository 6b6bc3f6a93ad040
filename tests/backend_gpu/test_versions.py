"""The table of versions: what goes together, and one clear line for what cannot."""

from __future__ import annotations

import itertools
from importlib import metadata

import pytest
from tdsim.backend_gpu.lowering import device_library as libraries
from tdsim.backend_gpu.lowering.device_library import DeviceLibrary, device_library
from tdsim.backend_gpu.lowering.versions import LINKS, SETS, TRITON_VERSIONS, check_links

from tdsim.errors import UsageError

PAIRS = [(triton, nvshmem) for triton, row in LINKS.items() for nvshmem in row]


@pytest.mark.parametrize(("triton", "nvshmem"), PAIRS)
def test_exactly_the_pairs_that_failed_are_refused(triton, nvshmem):
    if LINKS[triton][nvshmem]:
        check_links(triton, nvshmem)
    else:
        with pytest.raises(UsageError, match=f"cannot read .* NVSHMEM {nvshmem}; expected"):
            check_links(triton, nvshmem)


def test_every_pair_of_tried_versions_is_in_the_table():
    columns = {tuple(row) for row in LINKS.values()}
    assert LINKS.keys() == set(TRITON_VERSIONS)
    assert len(columns) == 1


@pytest.mark.parametrize("triton", ["3.6.0", "3.6.2"])
def test_a_refusal_says_which_sets_would_work(triton):
    with pytest.raises(UsageError) as caught:
        check_links(triton, "3.8.0")
    assert str(caught.value) == (
        f"a kernel for several nodes: Triton {triton} cannot read the device library of NVSHMEM "
        "3.8.0; expected NVSHMEM 3.4.5 or 3.6.5 or 3.7.2, or Triton 3.7.1 or 3.8.0 or 3.9.0; "
        "pip install nvidia-nvshmem-cu12==3.4.5, cu13 from torch 2.11 on"
    )


@pytest.mark.parametrize(("triton", "nvshmem"), [("3.6.0", "4.0.0"), ("4.0.0", "3.8.0")])
def test_what_was_never_tried_is_let_through(triton, nvshmem):
    check_links(triton, nvshmem)


@pytest.mark.parametrize("tools", SETS, ids=lambda tools: tools.torch)
def test_every_set_of_a_torch_links(tools):
    assert LINKS[tools.triton][tools.nvshmem]
    assert tools.nvshmem4py == ("cu12" if tools.torch == "2.10" else "cu13")


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Makes a folder of device libraries and package versions the installed ones."""

    def install(files, **versions):
        folder = tmp_path / "nvshmem" / "lib"
        folder.mkdir(parents=True)
        for file in files:
            (folder / file).touch()

        def version(package):
            try:
                return versions[package.rpartition("-")[2]]
            except KeyError:
                raise metadata.PackageNotFoundError(package) from None

        monkeypatch.setattr(libraries, "_folders", lambda: [tmp_path / "empty", folder])
        monkeypatch.setattr(libraries.metadata, "version", version)
        return folder

    return install


ALL_CHIPS = ["libnvshmem_device.bc"]
EACH_CHIP = [f"libnvshmem_device_sm_{arch}.bc" for arch in (70, 80, 89, 90)]


@pytest.mark.parametrize("arch", [80, 90, 100])
def test_one_file_serves_all_chips_up_to_nvshmem_3_6(installed, arch):
    folder = installed(ALL_CHIPS, cu12="3.6.5")
    assert device_library(arch) == DeviceLibrary(folder / ALL_CHIPS[0], "3.6.5")


@pytest.mark.parametrize(("arch", "taken"), [(80, 80), (86, 80), (90, 90), (100, 90)])
def test_a_chip_without_a_file_takes_that_of_the_newest_older_one(installed, arch, taken):
    folder = installed(EACH_CHIP, cu13="3.7.2")
    expected = DeviceLibrary(folder / f"libnvshmem_device_sm_{taken}.bc", "3.7.2")
    assert device_library(arch) == expected


@pytest.mark.parametrize(
    ("files", "versions", "what"),
    [
        ([], {}, "NVSHMEM is not installed"),
        (EACH_CHIP, {"cu12": "3.7.2"}, "NVSHMEM 3.7.2 has no device library for sm_60"),
    ],
)
def test_a_missing_library_names_the_cure(installed, files, versions, what):
    installed(files, **versions)
    with pytest.raises(UsageError) as caught:
        device_library(60)
    assert str(caught.value) == (
        f"a kernel for several nodes: {what}; expected the device library of NVSHMEM 3.4.5; "
        "pip install nvidia-nvshmem-cu12==3.4.5"
    )


def test_two_versions_in_one_folder_are_refused(installed):
    installed(ALL_CHIPS, cu12="3.4.5", cu13="3.8.0")
    with pytest.raises(UsageError) as caught:
        device_library(90)
    assert str(caught.value) == (
        "a kernel for several nodes: nvidia-nvshmem-cu12 3.4.5 and nvidia-nvshmem-cu13 3.8.0 are "
        "both installed, and one has overwritten the other's files; expected one of them; "
        "pip uninstall nvidia-nvshmem-cu12 nvidia-nvshmem-cu13, then install the one for torch's "
        "CUDA"
    )


def test_newer_triton_never_reads_less():
    for older, newer in itertools.pairwise(TRITON_VERSIONS):
        assert all(LINKS[newer][v] for v, links in LINKS[older].items() if links)


def test_the_installed_device_library_is_found_with_its_version():
    pytest.importorskip("nvidia.nvshmem", reason="needs the installed device library")
    library = device_library(90)
    assert library.path.is_file()
    assert library.version in LINKS["3.6.0"]
