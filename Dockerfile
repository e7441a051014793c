# The image of every role and command. Without an image registry, deploy/airgap/make-images builds BASE.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
# pip's own settings. Without them pip uses its default index; with them (--build-arg) they leave no trace in the image.
ARG PIP_INDEX_URL
ARG PIP_NO_INDEX
# The wheelhouse holds wheels for a build without an index; they are checked against the locked hashes, too.
COPY requirements.lock deploy/airgap/wheelhouse /wheelhouse/
RUN python3 -m venv /pip \
    && python3 -m venv --without-pip /opt/python \
    && /pip/bin/pip --no-cache-dir --disable-pip-version-check wheel --quiet --require-hashes --no-deps \
        --find-links /wheelhouse --wheel-dir /wheels --requirement /wheelhouse/requirements.lock
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_FIND_LINKS=/wheels \
    PIP_PYTHON=/opt/python/bin/python \
    PIP_QUIET=1

# Installs the dependencies by installing and removing the project, and adds the program's later location to the path.
# EXTRAS of the project, such as [frames] for Parquet files or [frames,plot].
ARG EXTRAS=""
COPY pyproject.toml README.md LICENSE /src/
RUN mkdir /src/streamproc && touch /src/streamproc/__init__.py \
    && /pip/bin/pip install --no-index "/src${EXTRAS}" \
    && /pip/bin/pip uninstall --yes streamproc \
    && echo /opt/streamproc >"$(echo /opt/python/lib/python3.*/site-packages)/streamproc.pth"

COPY streamproc /src/streamproc
RUN /pip/bin/pip install --no-index --no-deps --target /opt/streamproc /src

FROM ${BASE}
# A volume inherits the owner of the folder on which it is mounted, so the folders must exist.
RUN groupadd --gid 10001 streamproc \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin streamproc \
    && install --directory --mode 0700 --owner 10001 --group 10001 /state \
    && install --directory --mode 0750 --owner 10001 --group 10001 /etc/streamproc/operator
LABEL org.opencontainers.image.title="streamproc" \
      org.opencontainers.image.description="Continual release of differentially private synthetic data" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/streamproc/bin:/opt/python/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    STREAMPROC_STATE=/state \
    HEALTH_PORT=9101
USER 10001:10001
WORKDIR /state
VOLUME /state
# Public listener, operator's listener, if the command opens them. The health check uses HEALTH_PORT.
EXPOSE 9100 9101
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f\"http://127.0.0.1:{os.environ['HEALTH_PORT']}/readyz\", timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["streamproc"]
CMD ["--help"]
# Last, and in a layer of its own, so that a change of the program is a layer of a megabyte or two.
COPY --from=build /opt/python /opt/python
COPY --from=build /opt/streamproc /opt/streamproc
