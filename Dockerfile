# consilience in a container, as a user without rights. Build and try it:
#   docker build -t consilience .
#   docker run --rm -v "$PWD/runs:/work/runs" consilience run
# torch comes as the registry has it. For the smaller build without CUDA, name an index that has it:
#   docker build --build-arg PIP_EXTRA_INDEX_URL=... -t consilience .
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS wheel
WORKDIR /source
RUN pip install --no-cache-dir build==1.6.1
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m build --wheel --outdir /wheels

FROM python:${PYTHON}-slim
ARG PIP_EXTRA_INDEX_URL=
ENV PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
COPY constraints.txt /tmp/constraints.txt
COPY --from=wheel /wheels /tmp/wheels
RUN pip install --no-cache-dir -c /tmp/constraints.txt "$(echo /tmp/wheels/*.whl)[peers]" \
    && rm -r /tmp/wheels /tmp/constraints.txt \
    && useradd --create-home --uid 1000 agent \
    && mkdir -p /work /site \
    && chown agent:agent /work /site
USER 1000
WORKDIR /work
ENTRYPOINT ["consilience"]
CMD ["--help"]
