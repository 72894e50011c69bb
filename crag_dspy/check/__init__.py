"""An answer is checked against its evidence before it leaves."""
