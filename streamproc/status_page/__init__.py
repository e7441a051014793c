"""The status page: what anybody may see of a study, as a page in a browser and as JSON.

Made of two things only: the study's public values, and what the ledger and the synthetic topics hold. `PublicTopics` sees to
that: the page is handed no other way to read.
"""

from streamproc.status_page.app import StatusPage

__all__ = ["StatusPage"]
