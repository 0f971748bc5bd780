package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// certificates writes a new authority (ca.crt), the server's certificate for loopback (server.crt, .key), the pair that
// signs tokens of service accounts (accounts.key, .pub), and a certificate for each user (USER.crt, .key).
func certificates(folder string, users []string) error {
	authorityKey, err := newKey(folder, "ca")
	if err != nil {
		return err
	}
	authority := described(pkix.Name{CommonName: "k8sbox"})
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	if err := sign(folder, "ca", authority, authority, authorityKey, authorityKey); err != nil {
		return err
	}
	issue := func(file string, of *x509.Certificate) error {
		key, err := newKey(folder, file)
		if err != nil {
			return err
		}
		return sign(folder, file, of, authority, key, authorityKey)
	}
	server := described(pkix.Name{CommonName: "kube-apiserver"})
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	server.DNSNames = []string{"localhost", "kubernetes.default.svc"}
	if err := issue("server", server); err != nil {
		return err
	}
	for _, user := range users {
		name, group, grouped := strings.Cut(user, ":")
		subject := pkix.Name{CommonName: name}
		if grouped {
			subject.Organization = []string{group}
		}
		client := described(subject)
		client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		if err := issue(name, client); err != nil {
			return err
		}
	}
	accounts, err := newKey(folder, "accounts")
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&accounts.PublicKey)
	if err != nil {
		return err
	}
	return write(folder, "accounts.pub", "PUBLIC KEY", public)
}

func described(subject pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // there is no randomness
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 0, 30)}
}

func newKey(folder, file string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	content, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, write(folder, file+".key", "PRIVATE KEY", content)
}

func sign(folder, file string, of, by *x509.Certificate, key, authority *ecdsa.PrivateKey) error {
	content, err := x509.CreateCertificate(rand.Reader, of, by, &key.PublicKey, authority)
	if err != nil {
		return err
	}
	return write(folder, file+".crt", "CERTIFICATE", content)
}

func write(folder, file, kind string, content []byte) error {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
	return os.WriteFile(filepath.Join(folder, file), text, 0o600)
}
