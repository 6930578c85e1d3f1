//! Requests with small bodies.

use std::future::ready;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch::Endpoint;
use anabranch::http3::{Body, Client, Code, ConnectionInfo, Error, Limits, Server};
use axum::Router;
use axum::extract::Request as AxumRequest;
use axum::routing::{get, post};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt, Empty, Full};

use super::support::{Site, full, text, within};

#[tokio::test]
async fn get_and_post_through_axum() {
    let site = Site::new();
    let hello = get(|request: AxumRequest| async move {
        let info = *request.extensions().get::<ConnectionInfo>().unwrap();
        assert!(info.remote.ip().is_loopback() && !info.early_data);
        assert_eq!(request.version(), Version::HTTP_3);
        format!("hello from {}", request.uri().authority().unwrap())
    });
    site.serve_router(
        Router::new().route("/hello", hello).route("/echo", post(|body: String| async { body })),
    );
    let client = site.client();
    let response = within(client.get(&site.url("/hello"))).await.unwrap();
    assert_eq!((response.status(), response.version()), (StatusCode::OK, Version::HTTP_3));
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/plain; charset=utf-8");
    assert!(response.headers()[header::DATE].to_str().unwrap().ends_with(" GMT"));
    assert_eq!(text(response).await, format!("hello from localhost:{}", site.address.port()));
    let response = within(client.post(&site.url("/echo"), "tea")).await.unwrap();
    assert_eq!(text(response).await, "tea");
    let response = within(client.get(&site.url("/nothing"))).await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert_eq!(site.endpoint.open_connections(), 1, "one connection serves all requests to a host");
}

#[tokio::test]
async fn each_host_has_its_own_connection() {
    let sites = [Site::new(), Site::new()];
    let mut roots = anabranch::rustls::RootCertStore::empty();
    for site in &sites {
        site.serve(|request| ready(Ok(full(request.uri().authority().unwrap().to_string()))));
        roots.add(site.identity.certificate().clone()).unwrap();
    }
    let config = anabranch::config::client(roots, ["h3"]).unwrap();
    let client = Client::new(Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap(), config);
    for site in sites.iter().chain(&sites) {
        let response = within(client.get(&site.url("/"))).await.unwrap();
        assert_eq!(text(response).await, format!("localhost:{}", site.address.port()));
    }
    assert_eq!(sites.map(|site| site.endpoint.open_connections()), [1, 1]);
}

#[tokio::test]
async fn a_host_field_takes_the_place_of_the_authority() {
    let site = Site::new();
    site.serve(|request| ready(Ok(full(request.uri().authority().unwrap().to_string()))));
    let request =
        Request::get(site.url("/")).header(header::HOST, "other.example").body(Empty::<&[u8]>::new());
    let response = within(site.client().request(request.unwrap())).await.unwrap();
    assert_eq!(text(response).await, "other.example");
}

#[tokio::test]
async fn head_has_a_length_and_no_body() {
    let site = Site::new();
    site.serve(|_| ready(Ok(full("content"))));
    let request = Request::head(site.url("/")).body(Empty::<&[u8]>::new()).unwrap();
    let response = within(site.client().request(request)).await.unwrap();
    assert_eq!(response.headers()[header::CONTENT_LENGTH], "7");
    assert_eq!(text(response).await, "");
}

#[tokio::test]
async fn statuses_without_content_send_none() {
    let site = Site::new();
    site.serve(|request| {
        let mut response = full("never sent");
        *response.status_mut() = request.uri().path()[1..].parse().unwrap();
        ready(Ok(response))
    });
    let client = site.client();
    for status in ["204", "304"] {
        let response = within(client.get(&site.url(&format!("/{status}")))).await.unwrap();
        assert_eq!(response.status().as_str(), status);
        assert!(!response.headers().contains_key(header::CONTENT_LENGTH));
        assert_eq!(text(response).await, "");
    }
}

#[tokio::test]
async fn lengths_are_said_when_they_are_known() {
    let site = Site::new();
    site.serve(|request| {
        let length =
            request.headers().get(header::CONTENT_LENGTH).map(|value| value.to_str().unwrap().to_owned());
        ready(Ok(full(length.unwrap_or_else(|| "none".to_owned()))))
    });
    let client = site.client();
    let lengths = [(Method::POST, "", "0"), (Method::POST, "four", "4"), (Method::GET, "", "none")];
    for (method, body, length) in lengths {
        let request =
            Request::builder().method(method).uri(site.url("/")).body(Full::<Bytes>::from(body)).unwrap();
        let response = within(client.request(request)).await.unwrap();
        assert_eq!(response.headers()[header::CONTENT_LENGTH], length.len().to_string());
        assert_eq!(text(response).await, length);
    }
}

async fn code_of(site: &Site) -> Option<Code> {
    within(site.client().get(&site.url("/"))).await.unwrap_err().code()
}

#[tokio::test]
async fn a_service_that_fails_resets_the_stream() {
    let site = Site::new();
    site.serve(|_| ready(Err::<Response<Empty<&[u8]>>, _>(Error::Closed)));
    assert_eq!(code_of(&site).await, Some(Code::INTERNAL_ERROR));
}

#[tokio::test]
async fn a_service_that_fails_later_resets_the_stream() {
    let site = Site::new();
    site.serve(|_| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Err::<Response<Empty<&[u8]>>, _>(Error::Closed)
    });
    assert_eq!(code_of(&site).await, Some(Code::INTERNAL_ERROR));
}

#[tokio::test]
async fn a_service_that_panics_resets_its_stream_only() {
    let site = Site::new();
    site.serve(|request| async move {
        match request.uri().path() {
            "/at-once" => panic!("a test panics at once"),
            "/later" => {
                tokio::task::yield_now().await;
                panic!("a test panics later");
            }
            _ => Ok(full("well")),
        }
    });
    let client = site.client();
    for path in ["/at-once", "/later"] {
        let error = within(client.get(&site.url(path))).await.unwrap_err();
        assert!(matches!(error, Error::Reset(Code::INTERNAL_ERROR)), "{path}: {error:?}");
    }
    assert_eq!(text(within(client.get(&site.url("/"))).await.unwrap()).await, "well");
    assert_eq!(site.endpoint.open_connections(), 1);
}

#[tokio::test]
async fn a_response_whose_content_is_not_as_long_as_it_says_is_reset() {
    let site = Site::new();
    site.serve(|request: Request<Body>| async move {
        let content = vec![b'x'; request.uri().query().unwrap().parse().unwrap()];
        // A body that is available at once is sent together with the header section. A body of unknown length
        // is streamed.
        let body = match request.uri().path() {
            "/whole" => Full::<Bytes>::from(content).boxed(),
            _ => StreamedBody(Some(content.into())).boxed(),
        };
        Ok(Response::builder().header(header::CONTENT_LENGTH, 10).body(body).unwrap())
    });
    let client = site.client();
    for path in ["/whole", "/streamed"] {
        for length in [0, 9, 10, 11, 20_000] {
            let response = within(client.get(&site.url(&format!("{path}?{length}")))).await;
            let read = match response {
                Ok(mut response) => within(response.body_mut().read_to_end(1 << 20)).await,
                Err(error) => Err(error),
            };
            match read {
                Ok(content) => assert!(length == 10 && content.len() == 10, "{path} {length}"),
                Err(Error::Reset(Code::INTERNAL_ERROR)) => assert_ne!(length, 10, "{path}"),
                Err(error) => panic!("{path} {length}: {error:?}"),
            }
        }
        let head = Request::head(site.url(&format!("{path}?0"))).body(Empty::<&[u8]>::new()).unwrap();
        assert_eq!(within(client.request(head)).await.unwrap().status(), 200);
    }
}

/// A body that does not report its length.
struct StreamedBody(Option<Bytes>);

impl http_body::Body for StreamedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.take().map(|content| Ok(http_body::Frame::data(content))))
    }
}

#[tokio::test]
async fn a_request_whose_content_is_not_as_long_as_it_says_is_the_callers_fault() {
    let site = Site::new();
    site.serve(|request: Request<Body>| async move {
        request.into_body().read_to_end(1 << 20).await?;
        Ok(full("never"))
    });
    for length in [0, 9, 11] {
        let body = Full::<Bytes>::from(vec![0; length]);
        let request = Request::post(site.url("/")).header(header::CONTENT_LENGTH, 10).body(body).unwrap();
        let error = within(site.client().request(request)).await.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{length}: {error:?}");
    }
}

#[tokio::test]
async fn an_interim_response_is_no_answer() {
    let site = Site::new();
    site.serve(|_| ready(Ok(Response::builder().status(103).body(Empty::<&[u8]>::new()).unwrap())));
    assert_eq!(code_of(&site).await, Some(Code::INTERNAL_ERROR));
}

#[tokio::test]
async fn what_cannot_be_sent_over_http3_is_the_callers_fault() {
    let site = Site::new();
    site.serve(|_| ready(Ok(full("never"))));
    let client = site.client();
    for url in ["http://localhost/", "localhost", "https:///x", "https://[bad"] {
        let error = client.get(url).await.unwrap_err();
        assert!(matches!(error, Error::Url { .. }), "{url}: {error:?}");
    }
    let request =
        Request::get(site.url("/")).header("connection", "close").body(Empty::<&[u8]>::new()).unwrap();
    let error = within(client.request(request)).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
}

#[tokio::test]
async fn fields_beyond_the_servers_limit_are_not_sent_or_refused() {
    let site = Site::new();
    let config = anabranch::http3::Config::default().with_max_field_section_size(2_000);
    let service = tower::service_fn(|_| ready(Ok::<_, Error>(full("never"))));
    tokio::spawn(Server::new(site.endpoint.clone(), service).config(config).serve());
    let connection = site.connect().await;
    let mut request = site.get("/");
    request.headers_mut().insert("x-large", "x".repeat(2_000).parse().unwrap());
    within(connection.settings()).await.unwrap();
    let error = within(connection.request_without_body(request)).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
}

#[tokio::test]
async fn other_protocols_are_not_spoken_to() {
    let site = Site::new();
    site.serve(|_| ready(Ok(full("never"))));
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let config = anabranch::config::client(site.identity.roots().unwrap(), ["hq-interop"]).unwrap();
    let error = within(Client::new(endpoint, config).get(&site.url("/"))).await.unwrap_err();
    // TLS refuses the connection, because no application protocol matches.
    assert!(matches!(error, Error::ConnectionLost(_)), "{error:?}");
}

/// Sends a thousand requests at the same time on one connection, which allows far fewer streams.
async fn a_thousand_at_once() {
    let site = Site::new();
    site.serve_within(Limits::default().with_max_handlers(64), |request| async move {
        let path = request.uri().path().to_owned();
        if path.ends_with('7') {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(full(path))
    });
    let client = site.client();
    let tasks: Vec<_> = (0..1_000)
        .map(|i| {
            let (client, url) = (client.clone(), site.url(&format!("/{i}")));
            tokio::spawn(async move { text(client.get(&url).await.unwrap()).await })
        })
        .collect();
    for (i, task) in tasks.into_iter().enumerate() {
        assert_eq!(within(task).await.unwrap(), format!("/{i}"));
    }
    assert_eq!(site.endpoint.open_connections(), 1);
}

#[tokio::test]
async fn a_thousand_requests_at_once() {
    a_thousand_at_once().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_requests_at_once_on_threads() {
    a_thousand_at_once().await;
}
