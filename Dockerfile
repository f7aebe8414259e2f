# The command in an image: docker build -t advisor . ; see docs/docker.md.
FROM python:3.12-slim-bookworm AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /src
COPY locks/runtime.txt locks/
RUN python -m venv /opt/advisor && /opt/advisor/bin/pip install --no-cache-dir --no-deps --require-hashes -r locks/runtime.txt
COPY . .
RUN /opt/advisor/bin/pip install --no-cache-dir --no-deps --no-build-isolation . && /opt/advisor/bin/advisor --version

FROM python:3.12-slim-bookworm
RUN useradd --create-home --uid 10001 advisor && install -d -o advisor -g advisor /data /data/runs /cache
COPY --from=build /opt/advisor /opt/advisor
# The root file system may be read-only: only these two volumes and /tmp are written.
ENV PATH=/opt/advisor/bin:$PATH ADVISOR_CACHE_DIR=/cache PYTHONDONTWRITEBYTECODE=1 MPLCONFIGDIR=/tmp
VOLUME ["/data/runs", "/cache"]
WORKDIR /data
USER 10001
ENTRYPOINT ["advisor"]
CMD ["--help"]
