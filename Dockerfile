# docker build -t wirebroker .                        a broker
# docker build -t wirebroker:audit --target audit .   the audit of real logs, with Spark and a Java runtime

FROM python:3.12-slim AS wheel
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist /src

FROM python:3.12-slim AS install
COPY --from=wheel /dist /dist
RUN pip install --no-cache-dir "$(echo /dist/*.whl)[codecs,control]"
RUN useradd --uid 1000 --create-home wirebroker && mkdir /data && chown wirebroker /data
ENV PYTHONUNBUFFERED=1
WORKDIR /data

FROM install AS audit
RUN pip install --no-cache-dir "$(echo /dist/*.whl)[audit]"
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
