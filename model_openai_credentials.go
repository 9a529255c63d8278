package pygent

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// headerCredentials reports whether a header given by the caller authenticates.
func (o *openAIOptions) headerCredentials() bool {
	return o.hasHeader("Authorization") || o.keyHeader()
}

// keyHeader reports whether a header given by the caller is an API key. A bearer
// token beside it is a second credential, and may be meant for another host.
func (o *openAIOptions) keyHeader() bool { return o.hasHeader("Api-Key") || o.hasHeader("X-Api-Key") }

func (o *openAIOptions) hasHeader(canonical string) bool {
	return slices.ContainsFunc(o.headers, func(h header) bool { return http.CanonicalHeaderKey(h.name) == canonical })
}

// secrets are the values that no error may show.
func (o *openAIOptions) secrets() []string {
	secrets := []string{o.key}
	for _, h := range o.headers {
		name := strings.ToLower(h.name)
		for _, word := range []string{"key", "token", "auth", "secret"} {
			if strings.Contains(name, word) {
				secrets = append(secrets, strings.TrimPrefix(h.value, "Bearer "))
				break
			}
		}
	}
	return secrets
}

// isVersion reports whether a parameter of a query is what Azure calls so, and
// nothing that has to be hidden.
func isVersion(name string) bool { return strings.EqualFold(name, "api-version") }

// querySecrets are the values of a base URL's query that no error may show.
func querySecrets(query url.Values) []string {
	var secrets []string
	for name, values := range query {
		if !isVersion(name) {
			for _, v := range values {
				secrets = append(secrets, v, url.QueryEscape(v))
			}
		}
	}
	return secrets
}

// redactURL is a URL as it may be shown: without the password, and without the
// values in its query, where some servers want their key.
func redactURL(s string) string {
	if !strings.ContainsAny(s, "@?#") {
		return s
	}
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" {
		return redacted
	}
	query := u.Query()
	for name := range query {
		if !isVersion(name) {
			query[name] = []string{"redacted"}
		}
	}
	u.RawQuery, u.Fragment = query.Encode(), ""
	if u.User != nil {
		u.User = url.User("redacted") // some take the name for the key
	}
	return u.String()
}

// redactor returns a function that takes secrets out of a server's words.
func redactor(secrets []string) func(string) string {
	const shortest = 8 // a placeholder such as "none" is no secret, and may be a word
	var pairs []string
	for _, secret := range secrets {
		if len(secret) >= shortest {
			pairs = append(pairs, secret, "[key]")
		}
	}
	return strings.NewReplacer(pairs...).Replace
}
