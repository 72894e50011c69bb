"""`crag-dspy grader ...`: what makes a grader, calibrates it and measures it."""
