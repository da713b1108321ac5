"""The reason why an attempt at a turn ended, as a workflow reads it from the error of an
activity.
"""

from temporalio.exceptions import ApplicationError

from threadline.privacy.encryption import DecryptionFailed
from threadline.threads.calls import fault_of
from threadline.threads.model import FaultKind


def test_worker_without_the_key_of_its_input_is_tried_again() -> None:
    """Only the admin can give the worker its key. The SDK names the type of an error by its
    class.
    """
    error = ApplicationError("Failed decoding arguments", type="RuntimeError")
    error.__cause__ = ApplicationError(
        "There is no key with the id 2024.", type=DecryptionFailed.__name__
    )
    assert fault_of(error).kind is FaultKind.TRANSIENT
