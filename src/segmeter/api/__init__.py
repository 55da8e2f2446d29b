"""The API of `import segmeter`: one module per thing that people do.

Front ends such as the command line import this package and nothing below it.
"""

from segmeter.core.catalogue import short
from segmeter.core.plans import display_names
from segmeter.core.received_runs import contacts_only
from segmeter.core.wording import counted, printable, size_text

__all__ = ["contacts_only", "counted", "display_names", "printable", "short", "size_text"]
