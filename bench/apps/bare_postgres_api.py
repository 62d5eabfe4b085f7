"""Bare prototype: Starlette + msgspec + group commit on PostgreSQL; its worker is peers/bare_postgres.py."""

from contextlib import asynccontextmanager

import asyncpg
import bare_postgres as bare
from bare_api import make_api
from group_commit import GroupCommit

_STATUS = """
select bare_jobs.id, state, data from bare_jobs left join bare_results on job_id = bare_jobs.id
where bare_jobs.id = any ($1::bigint[])
"""
reads = None


@asynccontextmanager
async def lifespan(_app):
    global reads
    await bare.open_client()
    connection = await asyncpg.connect(bare.URL, server_settings=bare.GENERIC)

    async def flush(ids):
        rows = {row[0]: row for row in await connection.fetch(_STATUS, ids)}
        return [rows.get(job_id) for job_id in ids]

    reads = GroupCommit(flush)
    yield


async def insert(payload):
    return (await bare.submissions.add(payload))[0]


async def read(job_id):
    return await reads.add(job_id)


api = make_api(lifespan, bare.PADDING, insert, read)
