"""The mathematics, with NumPy and SciPy alone: trust, pseudo-labels, and what the paper's theorems are about."""

from consilience.core.consensus import contraction_bound as contraction_bound
from consilience.core.consensus import influence as influence
from consilience.core.consensus import row_difference as row_difference
from consilience.core.consensus import scrambling as scrambling
from consilience.core.consensus import self_confidence as self_confidence
from consilience.core.consensus import stationary as stationary
from consilience.core.labels import majority_labels as majority_labels
from consilience.core.labels import pseudo_labels as pseudo_labels
from consilience.core.trust import cosine_trust as cosine_trust
from consilience.core.trust import entropy_trust as entropy_trust
from consilience.core.trust import gaussian_trust as gaussian_trust
from consilience.core.trust import ideal_trust as ideal_trust
from consilience.core.trust import metropolis as metropolis
