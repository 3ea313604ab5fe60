FROM python:3.12-slim

COPY . /src
RUN pip install --no-cache-dir "/src[codecs,control]" && rm -rf /src

RUN useradd --system --no-create-home wirebroker
USER wirebroker

ENV PYTHONUNBUFFERED=1
EXPOSE 9092
HEALTHCHECK --interval=5s --timeout=3s --start-period=5s \
    CMD ["wirebroker", "health", "--bootstrap", "127.0.0.1:9092"]
ENTRYPOINT ["wirebroker", "serve", "--host", "0.0.0.0"]
