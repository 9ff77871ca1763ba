"""Pictures of queries and of what they find. Each has a text form, for terminals and diffs, that needs no library."""

from sase.pictures.funnel import funnel
from sase.pictures.nfa import nfa
from sase.pictures.picture import Picture
from sase.pictures.plan import plan
from sase.pictures.stacks import stacks
from sase.pictures.timeline import timeline

__all__ = ["Picture", "funnel", "nfa", "plan", "stacks", "timeline"]
