"""PURE: frames, headers, the API registry, error codes and hand-packed hot responses of Kafka's wire protocol."""

# The modules of this package import kio; whichever of them comes first, kio must be entered through this door.
from crabka import _kio as _kio
