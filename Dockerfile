# consilience in a container, as a user without rights: what requirements.lock has, with hashes, and nothing else.
# torch is in there as its build for CPUs; name the index that PyTorch's installation page gives for it:
#   docker build --build-arg PIP_EXTRA_INDEX_URL=... -t consilience:0.2.0 .
#   docker run --rm -v "$PWD/runs:/work/runs" consilience:0.2.0 run
# The base is an image by digest: python:3.11-slim of 1 September 2026 (Python 3.11.16, Debian 13), as repos/python/remote/
# 3.11-slim.md of docker-library/repo-info has it at commit cc54a6ea2f4eadb0312329a5c74d91778ee65aec. For a newer one, take
# the digest that `docker buildx imagetools inspect python:3.11-slim` shows; its Python is that of requirements.lock.
FROM python:3.11-slim@sha256:9534e5a8e315485d4061ed659af0fd78a284c015f9b73661b41d6bab25604534 AS wheel
WORKDIR /source
COPY deploy/build.lock ./deploy/build.lock
RUN pip install --no-cache-dir --only-binary :all: --require-hashes -r deploy/build.lock
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m build --no-isolation --wheel --outdir /wheels

FROM python:3.11-slim@sha256:9534e5a8e315485d4061ed659af0fd78a284c015f9b73661b41d6bab25604534
ARG PIP_EXTRA_INDEX_URL=
ENV PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
COPY requirements.lock /tmp/requirements.lock
RUN pip install --no-cache-dir --only-binary :all: --require-hashes -r /tmp/requirements.lock
COPY --from=wheel /wheels /tmp/wheels
RUN pip install --no-cache-dir --no-deps --no-index /tmp/wheels/*.whl \
    && pip check \
    && rm -r /tmp/wheels /tmp/requirements.lock \
    && useradd --create-home --uid 1000 agent \
    && mkdir -p /work /site \
    && chown agent:agent /work /site
USER 1000
WORKDIR /work
ENTRYPOINT ["consilience"]
CMD ["--help"]
