{{- define "veilstream.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "veilstream.labels" -}}
app.kubernetes.io/name: veilstream
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "veilstream.environment" -}}
- name: VEILSTREAM_KEY_FILE
  value: /etc/veilstream/secret/key
{{- if .Values.secretKeys.checkpointKey }}
- name: VEILSTREAM_CHECKPOINT_KEY_FILE
  value: /etc/veilstream/secret/{{ .Values.secretKeys.checkpointKey }}
{{- end }}
{{- if .Values.secretKeys.kafkaPassword }}
- name: VEILSTREAM_SOURCE__SECURITY__PASSWORD_FILE
  value: /etc/veilstream/secret/{{ .Values.secretKeys.kafkaPassword }}
{{- end }}
{{- end -}}

{{- define "veilstream.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "veilstream.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "veilstream.mounts" -}}
- name: config
  mountPath: /etc/veilstream/config
  readOnly: true
- name: secret
  mountPath: /etc/veilstream/secret
  readOnly: true
- name: cache
  mountPath: /var/cache/veilstream
- name: tmp
  mountPath: /tmp
{{- end -}}

{{- define "veilstream.volumes" -}}
- name: config
  configMap:
    name: {{ .Release.Name }}-veilstream
- name: secret
  secret:
    secretName: {{ required "existingSecret: name a Secret that holds the pseudonym key under `key`" .Values.existingSecret }}
    defaultMode: 0440
- name: cache
  emptyDir:
    sizeLimit: 512Mi
- name: tmp
  emptyDir:
    sizeLimit: 256Mi
{{- end -}}

{{- define "veilstream.probes" -}}
# The health endpoint listens on loopback, so the probes run inside.
# A process that refused is alive and never ready: it waits for a person, and a restart would not help.
startupProbe:
  exec:
    command: [python, -c, "from urllib.request import urlopen; urlopen('http://127.0.0.1:{{ .Values.ports.health }}/healthz', timeout=3)"]
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 60
readinessProbe:
  exec:
    command: [python, -c, "from urllib.request import urlopen; urlopen('http://127.0.0.1:{{ .Values.ports.health }}/readyz', timeout=3)"]
  periodSeconds: 15
  timeoutSeconds: 5
livenessProbe:
  exec:
    command: [python, -c, "from urllib.request import urlopen; urlopen('http://127.0.0.1:{{ .Values.ports.health }}/healthz', timeout=3)"]
  periodSeconds: 30
  timeoutSeconds: 5
  failureThreshold: 3
{{- end -}}
