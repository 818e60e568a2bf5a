# The connector's image; `make image` builds it.
# Plain Dockerfile syntax, so that builders without BuildKit work too.
ARG BASE_IMAGE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS build
RUN command -v gcc >/dev/null || { apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev; }
RUN python -m venv /opt/connector && /opt/connector/bin/pip install --no-cache-dir --upgrade pip
WORKDIR /src
# What changes seldom first: the dependencies do not have to be fetched again when only the sources change.
COPY pyproject.toml ./
RUN /opt/connector/bin/python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
print('\n'.join(p['dependencies'] + p['optional-dependencies']['airbyte']))" > requirements.txt \
    && /opt/connector/bin/pip install --no-cache-dir -r requirements.txt
COPY README.md LICENSE ./
COPY ext ext
COPY format format
COPY destination_deeplake destination_deeplake
RUN /opt/connector/bin/pip install --no-cache-dir '.[airbyte]'

FROM ${BASE_IMAGE}
LABEL io.airbyte.name="destination-deeplake" io.airbyte.version="0.1.0"
RUN id airbyte >/dev/null 2>&1 || useradd --create-home --uid 1000 airbyte
COPY --from=build /opt/connector /opt/connector
ENV PATH=/opt/connector/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TZ=UTC \
    AIRBYTE_ENTRYPOINT=destination-deeplake
WORKDIR /airbyte
USER airbyte
ENTRYPOINT ["destination-deeplake"]
