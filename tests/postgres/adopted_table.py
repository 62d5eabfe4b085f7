"""The table of a legacy system, and the command that adopts it."""

import asyncio
from typing import Any

from click.testing import CliRunner, Result

from langlauf.cli.main import main
from langlauf.hints import Hints
from langlauf.store.postgres.driver import PostgresStore
from tests.support.postgres import fetch

#: The table before its failures were handled, with a typical trigger.
EARLIER = """
CREATE TABLE public.reading_jobs (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id uuid,
    status text NOT NULL DEFAULT 'pending'
        CONSTRAINT "job states" CHECK (status IN ('pending', 'processing', 'completed', 'failed', 'cancelled')),
    question text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now());
INSERT INTO public.reading_jobs (status, question, updated_at)
SELECT (ARRAY['pending', 'processing', 'completed', 'failed', 'cancelled'])[n % 5 + 1], 'question ' || n, '2025-01-01'
FROM generate_series(1, 50) AS n;
CREATE FUNCTION public.touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.updated_at = now(); RETURN NEW; END';
CREATE TRIGGER touches BEFORE UPDATE ON public.reading_jobs FOR EACH ROW EXECUTE FUNCTION public.touch();
"""
ROWS = """
SELECT md5(string_agg(concat_ws('|', id, user_id, status, question, created_at, updated_at), ',' ORDER BY id))
FROM public.reading_jobs
"""
#: The catalog rows of the table and its function; a change of a row changes its xmin.
CATALOG = """
SELECT 'column' AS kind, attname::text AS name, xmin::text || format_type(atttypid, atttypmod) || attnotnull AS says
FROM pg_attribute WHERE attrelid = 'public.reading_jobs'::regclass
UNION ALL SELECT 'check', conname::text, xmin::text || pg_get_constraintdef(oid)
FROM pg_constraint WHERE conrelid = 'public.reading_jobs'::regclass
UNION ALL SELECT 'index', indexrelid::regclass::text, xmin::text || pg_get_indexdef(indexrelid)
FROM pg_index WHERE indrelid = 'public.reading_jobs'::regclass
UNION ALL SELECT 'function', proname::text, xmin::text || proacl::text || prosrc
FROM pg_proc WHERE pronamespace = 'public'::regnamespace
ORDER BY 1, 2
"""
CHECK = "SELECT * FROM public.check_reading_timeouts()"
RESULT = "RETURNS TABLE (updated_count integer, updated_jobs uuid[])"


def adopt(url: str, *words: str, exit_code: int = 0) -> Result:
    """Run the command."""
    done = CliRunner().invoke(main, ["adopt", "reading_jobs", "--store", url, *words], prog_name="langlauf")
    assert done.exit_code == exit_code, done.output
    return done


def migrate(url: str) -> None:
    """Start Langlauf on the database."""

    async def run() -> None:
        store = await PostgresStore.open(url, hints=Hints())
        await store.close()

    asyncio.run(run())


def facts(url: str) -> list[tuple[Any, ...]]:
    """Return the catalog rows, for a comparison."""
    return [tuple(row) for row in fetch(url, CATALOG)]
