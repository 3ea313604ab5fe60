# docker build -t wirebroker .                        a broker
# docker build -t wirebroker:audit --target audit .   the audit of real logs, with Spark and a Java runtime
#
# The packages are those of uv.lock, and scripts/compile_parts/build.txt has what builds the wheel, all with their hashes. The
# base is named by its digest, so the same sources make the same image; .github/dependabot.yml proposes the newer digest.

FROM python:3.12.14-slim-trixie@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea AS base

FROM base AS wheel
COPY . /src
RUN pip install --no-cache-dir --require-hashes -r /src/scripts/compile_parts/build.txt
RUN pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir /dist /src
RUN uv export --project /src --quiet --frozen --no-dev --no-emit-project --output-file /dist/broker.txt \
    --extra codecs --extra control --extra oauth --extra tls
RUN uv export --project /src --quiet --frozen --no-dev --no-emit-project --output-file /dist/audit.txt --extra audit

FROM base AS install
COPY --from=wheel /dist /dist
RUN pip install --no-cache-dir --require-hashes -r /dist/broker.txt
RUN pip install --no-cache-dir --no-deps /dist/*.whl
RUN useradd --uid 1000 --create-home wirebroker && mkdir /data && chown wirebroker /data
ENV PYTHONUNBUFFERED=1
WORKDIR /data

FROM install AS audit
RUN pip install --no-cache-dir --require-hashes -r /dist/audit.txt
USER wirebroker
VOLUME /data
ENTRYPOINT ["wirebroker", "audit"]
CMD ["--help"]

FROM install AS broker
USER wirebroker
VOLUME /data
EXPOSE 9092
HEALTHCHECK --interval=5s --timeout=3s --start-period=5s \
    CMD ["wirebroker", "health"]
ENTRYPOINT ["wirebroker", "serve", "--host", "0.0.0.0"]
