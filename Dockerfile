# The connector's image: `make image` builds it, `make test-image` runs it on a Docker engine.
# Only what builders without BuildKit know, too. BASE_IMAGE: any image with Python 3.11 or newer on a Debian.
ARG BASE_IMAGE=docker.io/airbyte/python-connector-base:4.0.2@sha256:9fdb1888c4264cf6fee473649ecb593f56f58e5d0096a87ee0b231777e2e3e73

FROM ${BASE_IMAGE} AS build
USER root
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
# Without pip in it: what installs stays behind in this stage.
RUN python -m venv --without-pip /opt/connector
WORKDIR /src
# What changes seldom comes first: an edited source does not fetch the dependencies again.
COPY format/pyproject.toml format/
COPY scripts/image.py ./
RUN python image.py requirements > requirements.txt \
    && pip --python /opt/connector/bin/python install --no-cache-dir -r requirements.txt
COPY pyproject.toml LICENSE NOTICE setup.py ./
COPY docs docs
COPY ext ext
COPY format format
COPY destination_deeplake destination_deeplake
RUN pip --python /opt/connector/bin/python install --no-cache-dir --no-deps ./format .
RUN python image.py slim /opt/connector
# The compiled core and every dependency are there, or the build fails.
RUN /opt/connector/bin/python -I image.py verify .

FROM ${BASE_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL io.airbyte.name="destination-deeplake" io.airbyte.version="${VERSION}" \
    org.opencontainers.image.title="destination-deeplake" org.opencontainers.image.licenses="MIT" \
    org.opencontainers.image.description="Airbyte destination that turns any database into a tensor dataset" \
    org.opencontainers.image.version="${VERSION}" org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.source="${SOURCE}"
COPY --from=build /opt/connector /opt/connector
ENV PATH=/opt/connector/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    TZ=UTC \
    AIRBYTE_ENTRYPOINT=/opt/connector/bin/destination-deeplake
WORKDIR /airbyte
# A number, so that Kubernetes can tell that it is not root; `airbyte` in Airbyte's base image.
USER 1000:1000
ENTRYPOINT ["/opt/connector/bin/destination-deeplake"]
