# The image of every role and command. Where no registry is reached, BASE is made by deploy/airgap/make-images.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
# Unset, pip asks its usual index. Given (--build-arg), they are pip's own settings, and leave no trace in the image.
ARG PIP_INDEX_URL
ARG PIP_NO_INDEX
# Wheels for a build without an index lie in the wheelhouse; there, too, only what has the locked hash is taken.
COPY requirements.lock deploy/airgap/wheelhouse /wheelhouse/
RUN python3 -m venv /pip \
    && python3 -m venv --without-pip /opt/python \
    && /pip/bin/pip --no-cache-dir --disable-pip-version-check wheel --quiet --require-hashes --no-deps \
        --find-links /wheelhouse --wheel-dir /wheels --requirement /wheelhouse/requirements.lock
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_FIND_LINKS=/wheels \
    PIP_PYTHON=/opt/python/bin/python \
    PIP_QUIET=1

# What the project needs, for which it is installed and taken out again; and a line that says where the program will be.
# Extras of the project, such as [frames] for Parquet files or [frames,plot].
ARG EXTRAS=""
COPY pyproject.toml README.md LICENSE /src/
RUN mkdir /src/streamproc && touch /src/streamproc/__init__.py \
    && /pip/bin/pip install --no-index "/src${EXTRAS}" \
    && /pip/bin/pip uninstall --yes streamproc \
    && echo /opt/streamproc >"$(echo /opt/python/lib/python3.*/site-packages)/streamproc.pth"

COPY streamproc /src/streamproc
RUN /pip/bin/pip install --no-index --no-deps --target /opt/streamproc /src

FROM ${BASE}
# A volume takes over who owns the folder below it, so the folders must be there.
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
# Public listener, operator's listener: if the command opens them. Health is asked of the port above.
EXPOSE 9100 9101
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f\"http://127.0.0.1:{os.environ['HEALTH_PORT']}/readyz\", timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["streamproc"]
CMD ["--help"]
# Last, and the program apart: a change of it is a layer of a megabyte or two, not of hundreds.
COPY --from=build /opt/python /opt/python
COPY --from=build /opt/streamproc /opt/streamproc
