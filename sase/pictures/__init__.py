"""Pictures of queries and of what they find. Each has a text form, for terminals and diffs, that needs no library."""

from sase.pictures.nfa import nfa
from sase.pictures.picture import Picture
from sase.pictures.plan import plan
from sase.pictures.stacks import stacks
from sase.pictures.stages import stages
from sase.pictures.timeline import timeline

__all__ = ["Picture", "nfa", "plan", "stacks", "stages", "timeline"]
