"""The best thresholds on a development set, exactly."""
