"""The status page: everything public of a study, as a page in a browser and as JSON.

It shows only the study's public values and the contents of the ledger and the synthetic topics. `PublicTopics` enforces
this: the page has no other access to the log.
"""

from streamproc.status_page.app import StatusPage

__all__ = ["StatusPage"]
