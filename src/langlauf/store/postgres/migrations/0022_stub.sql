-- Kept free for a step that comes from elsewhere.
SELECT 1;
