# Wend with its tests and tools:  docker build -t wend . && docker run --rm wend
FROM python:3.13-bookworm

RUN useradd --uid 1000 --create-home wend && install -d -o 1000 /opt/wend
USER 1000
WORKDIR /opt/wend
COPY --chown=1000 . .
RUN make setup
CMD ["make", "smoke"]
