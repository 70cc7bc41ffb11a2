# The server as an image: no compiler and no pip in it, no user with a name, nothing written outside /data.
#
#   docker build -t holdfast .
#   docker run --rm -p 127.0.0.1:8700:8700 -v holdfast:/data --read-only --tmpfs /tmp \
#     --cap-drop ALL --security-opt no-new-privileges holdfast
#
# The first start writes an admin key to /data/admin.key; without a key nobody is served.
FROM python:3.11-slim-bookworm AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src

# What changes rarely comes first. Everything that is installed is pinned by hash.
# `--build-arg REQUIREMENTS=nats` adds what HOLDFAST_BUS=nats://... needs.
ARG REQUIREMENTS=base
COPY requirements/build.txt requirements/base.txt requirements/nats.txt requirements/
RUN python -m venv /opt/build && /opt/build/bin/pip install --require-hashes -r requirements/build.txt
RUN python -m venv --without-pip /opt/holdfast \
    && /opt/build/bin/pip --python /opt/holdfast/bin/python install --require-hashes -r requirements/${REQUIREMENTS:-base}.txt

COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY holdfast holdfast
COPY migrations migrations
COPY schemas schemas
COPY workspaces workspaces
RUN /opt/build/bin/python -m hatchling build -t wheel -d /opt/wheels
RUN /opt/build/bin/pip --python /opt/holdfast/bin/python install --no-deps --no-index /opt/wheels/*.whl
# Compiled here, because the root is read-only later; and the folders that the server's user may write to.
RUN /opt/holdfast/bin/python -m compileall -q /opt/holdfast/lib && mkdir -p /opt/empty/data /opt/empty/keys


FROM python:3.11-slim-bookworm

COPY --from=build /opt/holdfast /opt/holdfast
COPY --from=build --chown=10001:10001 /opt/empty/ /

ENV PATH=/opt/holdfast/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOLDFAST_HOST=0.0.0.0 \
    HOLDFAST_PORT=8700 \
    HOLDFAST_DATA_DIR=/data \
    HOLDFAST_AUTH=keys \
    HOLDFAST_ADMIN_KEY_FILE=/data/admin.key

USER 10001:10001
VOLUME /data
EXPOSE 8700
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request as web; web.urlopen('http://127.0.0.1:8700/readyz', timeout=2)"]
ENTRYPOINT ["holdfast"]
CMD ["serve"]
