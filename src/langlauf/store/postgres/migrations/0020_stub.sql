-- A step that is written elsewhere.
SELECT 1;
