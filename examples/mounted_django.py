"""A Django project in one file that has Langlauf under a prefix.

    uvicorn mounted_django:app --port 8084 --timeout-graceful-shutdown 5

Then `POST /tools/analyze` accepts jobs. Django's ASGI application knows neither mounting nor a lifespan, so `mount_in`
stands before both: what is under the prefix goes to Langlauf, everything else to Django.
"""

import secrets

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

from langlauf import Job, Langlauf

settings.configure(SECRET_KEY=secrets.token_urlsafe(), ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1", "localhost"])
jobs = Langlauf()


@jobs.analysis
async def word_count(job: Job, text: str) -> dict[str, int]:
    """Counts the words of a text."""
    await job.progress(50, step="Counting")
    return {"words": len(text.split())}


def home(_: HttpRequest) -> HttpResponse:
    """A page of Django."""
    return HttpResponse("POST /tools/analyze takes a text and counts its words.\n", content_type="text/plain")


async def count_later(_: HttpRequest, text: str) -> HttpResponse:
    """Submits a job without HTTP; it is on disk when `submit` returns."""
    job = await jobs.submit("word_count", text=text, allow_duplicate=True)
    return JsonResponse({"job_id": job.job_id, "status_url": f"/tools/analyze/jobs/{job.job_id}"}, status=202)


urlpatterns = [path("", home), path("count/<str:text>", count_later)]

app = jobs.mount_in(get_asgi_application(), "/tools")
