-- Holds the place of another step.
SELECT;
