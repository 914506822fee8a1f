"""The guards of a fetched model: what is checked, and what a command must not lose."""

from tests.mutations.guards import guard

RELEASE = "tests/models/test_release.py::test_"
INSTALL = "tests/models/test_install.py::test_"

OF_MODELS = (
    guard(
        "the SHA-256 of each file is compared",
        "myna/models/install.py",
        "if _sha256(folder / file.path) != file.sha256]",
        "if not file.sha256]",
        f"{RELEASE}a_wrong_voice_is_named",
        error="Failed",
    ),
    guard(
        "a command waits for another one",
        "myna/models/install.py",
        "        lock.acquire()\n    try:",
        "        pass\n    try:",
        "tests/models/test_commands.py::test_two_commands_at_once_fetch_it_once",
    ),
    guard(
        "a folder with other files is not replaced",
        "myna/models/install.py",
        "if path not in ours and not path.is_dir():",
        "if False:",
        f"{INSTALL}a_folder_with_other_files_is_neither_replaced_nor_removed",
        error="Failed",
    ),
    guard(
        "the folder before it is put back",
        "myna/models/install.py",
        "        if old.exists():\n            old.rename(place.target)\n        raise",
        "        raise",
        f"{INSTALL}the_folder_before_it_is_restored_if_the_new_one_cannot_be_renamed",
    ),
    guard(
        "a wrong download is not kept",
        "myna/models/install.py",
        "        shutil.rmtree(downloads)  # nothing of it is worth resuming\n",
        "",
        f"{RELEASE}a_part_of_other_bytes_is_noticed_after_it_was_continued",
        error="SourceFailed",
    ),
    guard(
        "another range is not appended",
        "myna/models/fetch.py",
        "if not found or int(found[1]) != have:",
        "if not found:",
        f"{RELEASE}another_range_than_the_requested_one_restarts_the_download",
        error="SourceFailed",
    ),
    guard(
        "a redirect leads to https",
        "myna/models/fetch.py",
        'if not newurl.startswith("https://"):',
        "if not newurl:",
        f"{RELEASE}redirects_are_followed_to_https_alone",
    ),
    guard(
        "pip and npm get no secret",
        "myna/models/environment.py",
        "return child_environ(environ) | ours",
        "return {**environ}",
        "tests/models/test_packages.py::test_the_clients_get_their_own_configuration_and_no_secret_of_ours",
    ),
)
