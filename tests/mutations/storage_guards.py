"""The guards of the disk: the reserve of free space, and the quota of an account."""

from tests.mutations.guards import guard

OF_STORAGE = (
    guard(
        "free space is checked before the charge",
        "myna/speech/plan.py",
        "        self._space.check()\n        route",
        "        route",
        "tests/tasks/test_storage.py::test_below_the_disk_reserve_nothing_is_charged[sqlite]",
        error="Failed",
    ),
    guard(
        "free space is checked before an upload",
        "myna/api/farm/uploads.py",
        "if self._space.low:",
        "if False:",
        "tests/farm/test_low_disk.py::test_audio_is_503_below_the_disk_reserve_and_accepted_later",
    ),
    guard(
        "free space is compared with the reserve",
        "myna/store/files/free_space.py",
        "low = free_bytes < self._reserve_bytes",
        "low = free_bytes < 0",
        "tests/store/test_free_space.py::test_below_the_reserve_speech_is_refused_until_space_is_free",
    ),
    guard(
        "the quota is checked before the charge",
        "myna/speech/plan.py",
        "            self._quota.check(await self._account_of(caller))\n",
        "            pass\n",
        "tests/tasks/test_storage.py::test_an_account_at_its_quota_is_refused_before_the_charge_and_no_other[sqlite]",
        error="Failed",
    ),
    guard(
        "removed audio does not count for the quota",
        "myna/store/queries/storage.py",
        " AND audio_removed_at = 0",
        "",
        "tests/tasks/test_storage.py::test_removed_audio_or_a_larger_quota_allows_new_orders[sqlite]",
    ),
    guard(
        "a sample over the quota is not stored",
        "myna/clones.py",
        "> mib_max * MIB:",
        "> 1e18:",
        "tests/clones/test_clone.py::test_a_sample_over_the_accounts_quota_is_not_stored[sqlite]",
        error="Failed",
    ),
)
