"""GET /uploads/NAME: finished audio, for whoever knows its address."""

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from myna.errors import NotFound
from myna.store.audio import AudioStore

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "public, max-age=31536000, immutable",
    "Accept-Ranges": "bytes",
}


class UploadsApi:
    """Serves files of the audio store, with ranges; nothing else has a name here."""

    def __init__(self, audio: AudioStore) -> None:
        self._audio = audio

    async def file(self, request: Request) -> Response:
        path = self._audio.find(request.path_params["name"])
        if path is None:
            raise NotFound("There is no such file.")
        return FileResponse(path, media_type="audio/mpeg", headers=HEADERS)
