# specgauge as a container: docker build -t specgauge . && docker run -p 9843:9843 specgauge serve --target http://ENGINE:8000
FROM python:3.13-slim-bookworm AS base

FROM base AS wheel
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY exporter exporter
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /dist .

# The environment gets no pip of its own: nothing can be installed into a running container.
FROM base AS environment
COPY --from=wheel /dist /dist
RUN python -m venv --without-pip /opt/specgauge \
 && python -m pip --python /opt/specgauge/bin/python install --no-cache-dir /dist/specgauge-*.whl

FROM base
LABEL org.opencontainers.image.title="specgauge" \
      org.opencontainers.image.description="Tells whether speculative decoding pays on a vLLM server" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=environment /opt/specgauge /opt/specgauge
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, so that Kubernetes can see that it is not root (runAsNonRoot).
USER 65532:65532
EXPOSE 9843
# No HEALTHCHECK: the orchestrator asks /-/healthy and /-/ready over HTTP.
ENTRYPOINT ["/opt/specgauge/bin/specgauge"]
CMD ["serve"]
